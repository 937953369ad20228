"""Numbers of content that no integer and no double writes as they came. Pure."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

#: A text that content can't hold: digits between NULs. As JSON its backslash is single,
#: which within a string it never is behind a quote.
_SPELLED = re.compile(r'"\\u0000(-?[0-9][-+.0-9eE]*)\\u0000"')
_MARK = '"\\u0000'


class Number:  # noqa: PLW1641  # No key of anything; a hash differs by process.
    """A number as it was written: `1.10`, `1e400`, `-0`.

    No dataclass, since orjson would write one as an object.
    """

    __slots__ = ("digits",)

    def __init__(self, digits: str) -> None:
        self.digits = digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and other.digits == self.digits

    def __repr__(self) -> str:
        return f"Number({self.digits!r})"

    def __str__(self) -> str:
        return self.digits

    def plain(self) -> float:
        """Return the double nearest to it, which may be infinite."""
        return float(self.digits)


def read_double(digits: str) -> Any:
    """Return a double that is written as it came, else a Number."""
    number = float(digits)
    return number if repr(number) == digits else Number(digits)


def read_integer(digits: str) -> Any:
    """Return an integer; a Number of minus nought."""
    return Number(digits) if digits == "-0" else int(digits)


def marked(value: Any) -> str:
    """Return what stands for a Number until `restored`; a hook of JSON encoders."""
    return f"\0{_number(value).digits}\0"


def marked_alike(value: Any) -> Any:
    """Return what equal numbers have in common, of what a double holds."""
    number = _number(value).plain()
    return number if isfinite(number) else marked(value)


def restored(text: str) -> str:
    """Return JSON text with each marked Number as its digits."""
    return _SPELLED.sub(r"\1", text) if _MARK in text else text


def _number(value: Any) -> Number:
    if isinstance(value, Number):
        return value
    raise TypeError(f"{type(value).__name__} is no JSON")
