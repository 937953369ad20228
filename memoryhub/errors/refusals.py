"""Base classes of refusals: each class has its own code and message.

`detail` holds numbers and words of the server, never the offending value.
"""

from __future__ import annotations

import inspect
from typing import ClassVar

Detail = str | int | float | bool | tuple[int, ...] | None


class Refusal(Exception):
    """The request was refused; nothing has changed."""

    code: ClassVar[str] = "value"
    #: Whether a journal event records, and thereby counts, the refusal.
    journaled: bool = False

    def __init__(self, **detail: Detail) -> None:
        self.detail = detail
        super().__init__(self.code)

    @property
    def message(self) -> str:
        """The class's docstring on one line: what happened and what to do next."""
        return " ".join((inspect.getdoc(type(self)) or "").split())

    @property
    def sentence(self) -> str:
        """The message, followed by the details."""
        details = [
            f"{n}: {_render_detail(v)}" for n, v in self.detail.items() if v is not None
        ]
        return f"{self.message} ({', '.join(details)})" if details else self.message


def _render_detail(value: Detail) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


class InvalidError(Refusal):
    """The request has a value that is out of its range or vocabulary.

    `loc` names the field; correct it and send again.
    """

    code = "value"

    def __init__(
        self,
        *,
        code: str = "value",
        loc: str = "",
        allowed: str = "",
        **detail: Detail,
    ) -> None:
        super().__init__(**detail)
        self.invalid_code = code
        self.loc = loc
        #: Allowed values in words; empty where the field's schema says so.
        self.allowed = allowed


class TokensRequiredError(InvalidError):
    """The thread counts by a tokenizer that is not run here. Send `tokens`.

    For `o200k_base` whoever runs the server may add its extra `tokens` instead.
    """

    code = "tokens_required"

    def __init__(self, tokenizer: str = "", *, largest: float = 0) -> None:
        super().__init__(code="tokens_required", loc="tokens")
        self.tokenizer = tokenizer
        #: Tokens beyond which a page of the thread is not mapped whole.
        self.largest = largest
