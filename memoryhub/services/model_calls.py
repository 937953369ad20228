"""Calls of a language model, as services make them: messages in, a reply out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

Message = dict[str, str]
#: Bytes of a useless answer that the model is shown when it is asked again.
QUOTED_BYTES: Final = 1_024


class ModelReply(Protocol):
    """Text of a model's reply, with its tokens and cost."""

    @property
    def text(self) -> str: ...
    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...
    @property
    def cost(self) -> float | None: ...


#: Function that asks the model. Raises ModelError.
Ask = Callable[[Sequence[Message]], ModelReply]


def build_message(role: str, text: str) -> Message:
    """Build a message of a role."""
    return {"role": role, "content": text}


def quote_useless(text: str) -> Message:
    """Build a message that quotes the first kilobyte of a model's useless answer.

    An answer may be as long as the model can write, and the next call pays for the
    quote.
    """
    cut = text.encode(errors="replace")[:QUOTED_BYTES].decode(errors="ignore")
    return build_message("assistant", cut)


def add_costs(before: float | None, more: float | None) -> float | None:
    """Add the cost of a further call; the old cost where the model has no price."""
    return before if more is None else round((before or 0) + more, 6)
