"""Calls of a language model, as services make them: messages in, a reply out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

Message = dict[str, str]
#: Of a useless answer, which its model is shown when it is asked again.
QUOTED_BYTES: Final = 1_024


class Reply(Protocol):
    """What a model said, and what it took."""

    @property
    def text(self) -> str: ...
    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...
    @property
    def cost(self) -> float | None: ...


#: Asks the model. Raises ModelError.
Ask = Callable[[Sequence[Message]], Reply]


def message(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def quote_useless(text: str) -> Message:
    """Return a model's useless answer as its own message: the first kilobyte of it.

    An answer may be as long as the model can write, and is paid for once more.
    """
    cut = text.encode(errors="replace")[:QUOTED_BYTES].decode(errors="ignore")
    return message("assistant", cut)


def add_costs(before: float | None, more: float | None) -> float | None:
    """Add what a further call costs; None where nobody said what the model takes."""
    return before if more is None else round((before or 0) + more, 6)
