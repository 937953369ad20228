"""JSON as a model reads it: written on one line, found in texts, made inert. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from memoryhub.kernel.text import numbers

#: Brackets deeper than twice this are text: no parser's stack may decide what a line
#: looks like, since a recorded context must come out the same everywhere.
_ROUNDS = 32
_LONGEST_NUMBER = 1_077

#: A whole string is one match, also when the text ends inside it: no scan is quadratic.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_NO_BRACKETS = re.compile(rf'{_STRING}|[^\[\]{{}}"]+', re.DOTALL)
_STRINGS = re.compile(f"({_STRING})", re.DOTALL)
#: What JSON leaves bare but would end a line, close a fence, or not be UTF-8.
_UNSAFE = re.compile("[\x85\u2028\u2029\ud800-\udfff]|<(?=/?VM:)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    separators=(",", ":"),
    check_circular=False,
    default=numbers.marked,
)


def dumped(value: Any) -> str:
    """Dump compact JSON that encodes as UTF-8, whatever the value's texts hold."""
    text = numbers.restored(_ENCODER.encode(value))
    return text if text.isascii() else _SURROGATE.sub(_escaped, text)


def in_string(text: str) -> str:
    """Return `text` as it stands between the quotes of a JSON string."""
    return dumped(text)[1:-1]


def inert(text: str) -> str:
    """Return JSON as one line that opens or closes no fence, of the same value."""
    if text.isascii() and "<" not in text:
        return text
    return _UNSAFE.sub(_escaped, text)


def quoted(text: str) -> str:
    """`text` as a JSON string on one line, inert."""
    return inert(dumped(text))


def minimised(text: str) -> str:
    """Strip white space outside strings from valid JSON; the rest stays as it was.

    Linear; by far the most of what a line of JSON costs.
    """
    parts = _STRINGS.split(text) if "\\" in text else text.split('"')
    # No NUL stands outside the strings, so one can hold the parts between them apart.
    outside = "\0".join(parts[::2])
    for space in " \n\t\r":
        outside = outside.replace(space, "")
    parts[::2] = outside.split("\0")
    return ("" if "\\" in text else '"').join(parts)


def read(text: str) -> Any:
    """Parse `text` as an object or array; None when it is neither.

    Key order is kept, of equal keys the last wins. Cheap for what begins otherwise.
    """
    if not text.lstrip(" \t\n\r").startswith(("{", "[")) or not _shallow(text):
        return None
    try:
        return _DECODER.decode(text)
    except ValueError:
        return None


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _shallow(text: str) -> bool:
    if text.count("[") + text.count("{") <= _ROUNDS:
        return True
    marks = _NO_BRACKETS.sub("", text)
    for _ in range(_ROUNDS):
        marks = marks.replace("[]", "").replace("{}", "")
        if not marks:
            return True
    return False


def _integer(digits: str) -> Any:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("too long a number")
    return numbers.read_integer(digits)


def _double(digits: str) -> Any:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("too long a number")
    return numbers.read_double(digits)


def _constant(_: str) -> NoReturn:
    raise ValueError("not JSON")


_DECODER = json.JSONDecoder(
    parse_int=_integer, parse_float=_double, parse_constant=_constant
)
