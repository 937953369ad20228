"""Calls of a language model, as services make them: messages in, a reply out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Message = dict[str, str]


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


def add_costs(before: float | None, more: float | None) -> float | None:
    """Add what a further call costs; None where nobody said what the model takes."""
    return before if more is None else round((before or 0) + more, 6)
