"""JSON as a model reads it: written on one line, found in texts, made inert. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from memoryhub.kernel.text import numbers

#: Half of the depth from which brackets are text. A recorded context must come out the
#: same everywhere, so no parser's stack may decide how a line looks.
_ROUNDS = 32
_LONGEST_NUMBER = 1_077

#: A whole string is one match, also when the text ends inside it: no scan is quadratic.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_NO_BRACKETS = re.compile(rf'{_STRING}|[^\[\]{{}}"]+', re.DOTALL)
_STRINGS = re.compile(f"({_STRING})", re.DOTALL)
#: Characters that JSON leaves bare but that would end a line, close a fence, or not be
#: UTF-8.
_UNSAFE = re.compile("[\x85\u2028\u2029\ud800-\udfff]|<(?=/?VM:)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    separators=(",", ":"),
    check_circular=False,
    default=numbers.mark_number,
)


def dump_json(value: Any) -> str:
    """Dump compact JSON that encodes as UTF-8, whatever texts the value holds."""
    text = numbers.restore_numbers(_ENCODER.encode(value))
    return text if text.isascii() else _SURROGATE.sub(_escape_match, text)


def escape_for_string(text: str) -> str:
    """Return `text` as it stands between the quotes of a JSON string."""
    return dump_json(text)[1:-1]


def make_inert(text: str) -> str:
    """Return JSON as one line that opens or closes no fence, of the same value."""
    if text.isascii() and "<" not in text:
        return text
    return _UNSAFE.sub(_escape_match, text)


def quote_text(text: str) -> str:
    """Render `text` as a JSON string on one line, inert."""
    return make_inert(dump_json(text))


def minimise_json(text: str) -> str:
    """Strip white space outside strings from valid JSON; the rest stays unchanged.

    Linear; the greatest cost by far of a line of JSON.
    """
    parts = _STRINGS.split(text) if "\\" in text else text.split('"')
    # No NUL stands outside the strings, so a NUL can separate the parts between them.
    outside = "\0".join(parts[::2])
    for space in " \n\t\r":
        outside = outside.replace(space, "")
    parts[::2] = outside.split("\0")
    return ("" if "\\" in text else '"').join(parts)


def read(text: str) -> Any:
    """Parse `text` as an object or array; None when it is neither.

    Key order is kept; of equal keys the last wins. Cheap for a text that begins
    otherwise.
    """
    if not text.lstrip(" \t\n\r").startswith(("{", "[")) or not _is_shallow(text):
        return None
    try:
        return _DECODER.decode(text)
    except ValueError:
        return None


def _escape_match(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _is_shallow(text: str) -> bool:
    if text.count("[") + text.count("{") <= _ROUNDS:
        return True
    marks = _NO_BRACKETS.sub("", text)
    for _ in range(_ROUNDS):
        marks = marks.replace("[]", "").replace("{}", "")
        if not marks:
            return True
    return False


def _parse_integer(digits: str) -> Any:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("too long a number")
    return numbers.read_integer(digits)


def _parse_double(digits: str) -> Any:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("too long a number")
    return numbers.read_double(digits)


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("not JSON")


_DECODER = json.JSONDecoder(
    parse_int=_parse_integer, parse_float=_parse_double, parse_constant=_refuse_constant
)
