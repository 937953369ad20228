"""Numbers of content whose digits no integer or double would reproduce. Pure.

See decision 57.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

#: Digits between NULs, a text that content can't hold. As JSON it has a single
#: backslash right behind the quote, which no other string has.
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

    def to_float(self) -> float:
        """Return the nearest double, which may be infinite."""
        return float(self.digits)


def read_double(digits: str) -> Any:
    """Return a double if its text is the same as the digits, else a Number."""
    number = float(digits)
    return number if repr(number) == digits else Number(digits)


def read_integer(digits: str) -> Any:
    """Return an integer; a Number for minus zero."""
    return Number(digits) if digits == "-0" else int(digits)


def mark_number(value: Any) -> str:
    """Return a Number's text until `restore_numbers`; a hook of JSON encoders."""
    return f"\0{_require_number(value).digits}\0"


def mark_alike(value: Any) -> Any:
    """Return the double of a Number, equal for equal numbers; marked if infinite."""
    number = _require_number(value).to_float()
    return number if isfinite(number) else mark_number(value)


def restore_numbers(text: str) -> str:
    """Return JSON text with each marked Number as its digits."""
    return _SPELLED.sub(r"\1", text) if _MARK in text else text


def _require_number(value: Any) -> Number:
    if isinstance(value, Number):
        return value
    raise TypeError(f"{type(value).__name__} is no JSON")
