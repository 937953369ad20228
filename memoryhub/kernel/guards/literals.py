"""Numbers in texts: those a user typed, and those a model gave a name. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, TypeAlias

from memoryhub.kernel.text.numbers import Number

Numeric: TypeAlias = int | float
#: Largest integer up to which doubles are exact.
EXACT = 2**53
#: Numbers from here on are no doubles.
_HUGE = 10**300
#: Longest text of one number.
_LONGEST = 64
_SIGN, _MONEY = r"(?:(?<![)%\]])(-)\s?)?", "[$€£¥]?"
_DIGITS = (
    r"((?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?"
    r"|\.[0-9]+(?:[eE][-+]?[0-9]{1,3})?)"
)
_IN_TEXT = re.compile(rf"(?<![A-Za-z0-9_.]){_SIGN}{_MONEY}{_DIGITS}")
_ALONE = re.compile(rf"\s*([-+])?\s?{_MONEY}{_DIGITS}%?\s*")
#: A date or a time of day, which is no number.
_DATE = re.compile(
    r"(?<![0-9])(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}"
    r"|[0-9]{1,2}([-/.])[0-9]{1,2}\2[0-9]{2,4}|[0-9]{1,2}:[0-9]{2})"
    r"(?:T?[0-9]{1,2}:[0-9]{2})?(?::[0-9]{2}(?:\.[0-9]+)?)?(?![0-9])"
)
#: `x = 3` before an end, punctuation or a word; an operator would change the value.
_ASSIGNED = re.compile(
    rf"(?<![\w.$=!<>])([A-Za-z_][A-Za-z0-9_]{{0,63}})\s{{0,8}}=\s{{0,8}}"
    rf"(-)?{_MONEY}{_DIGITS}"
    r"(?=\s{0,8}(?:$|[;,)\]`]|\*\*|\.(?:\s|$))|\s{1,8}[A-Za-z(])"
)
_CONDITION = re.compile(r"\b(?:if|elif|while|for)\b", re.IGNORECASE)


class NumberIndex:
    """Numbers that are looked up within a distance."""

    def __init__(self, numbers: Iterable[Numeric] = ()) -> None:
        self._exact = frozenset(numbers)
        self._sorted = sorted(float(n) for n in self._exact if abs(n) < EXACT)

    def has_number(self, number: Numeric, within: float) -> bool:
        """Return whether a number of the index is at most `within` away."""
        if number in self._exact:
            return True
        if abs(number) >= EXACT:
            return False
        at = bisect_left(self._sorted, number - within)
        return at < len(self._sorted) and self._sorted[at] <= number + within


def iter_typed_numbers(text: str) -> Iterator[Numeric]:
    """Yield the numbers in a text: `$1,250` is 1250, a date is no number."""
    for sign, digits in _IN_TEXT.findall(_DATE.sub(" ", text)):
        number = _parse_number(sign, digits)
        if number is not None:
            yield number


def iter_assigned_numbers(text: str) -> Iterator[tuple[str, Numeric]]:
    """Yield the names that a text gives to numbers: `x = 3`, but no condition."""
    for line in text.splitlines():
        for match in _ASSIGNED.finditer(line):
            number = _parse_number(match[2], match[3])
            if number is not None and not _CONDITION.search(line[: match.start()]):
                yield match[1], number


def find_number(value: Any) -> Numeric | None:
    """Return a JSON value as a number, numeric texts too; None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if abs(value) < _HUGE else None
    if isinstance(value, Number):
        double = value.to_float()
        return double if isfinite(double) else None
    if isinstance(value, str) and len(value) <= _LONGEST:
        match = _ALONE.fullmatch(value)
        return _parse_number(match[1], match[2]) if match else None
    return None


def _parse_number(sign: str | None, digits: str) -> Numeric | None:
    if len(digits) > _LONGEST:
        return None
    plain = digits.replace(",", "")
    number: Numeric = int(plain) if plain.isdecimal() else float(plain)
    if not isfinite(number):
        return None
    return -number if sign == "-" else number
