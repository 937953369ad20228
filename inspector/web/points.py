"""Points of a comparison in URLs: checkpoints, and the head. Pure."""

from __future__ import annotations

from memoryhub.errors import InvalidError
from memoryhub.queries.memory.comparisons import Point

_MAX_DIGITS = 18


def read(text: str) -> Point:
    """Read a checkpoint's number or name, or `head`. Raises InvalidError."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return text
    if len(digits) > _MAX_DIGITS:
        raise InvalidError(loc="checkpoint")
    return int(text)
