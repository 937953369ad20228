"""JSON as it is answered, streamed and exported: numbers to the digit."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from memoryhub.kernel.text.numbers import Number

#: What some take for the end of a line (str.splitlines does); JSON may hold it bare.
_LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}


def dumps(value: Any, *, option: int = 0) -> bytes:
    """Dump a value that content may stand in as JSON; otherwise as orjson's."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        # It knows 64 bits only. What else it can't write, it can't write then either.
        return orjson.dumps(_spelled(value), option=option)


def line(value: Any) -> bytes:
    """Dump as `dumps` does: one line to whoever reads it, without its end."""
    text = dumps(value)
    for end, escaped in _LINE_ENDS.items():
        text = text.replace(end, escaped)
    return text


def _spelled(value: Any) -> Any:
    """The value with each number that is beyond orjson as its own digits."""
    if isinstance(value, dict):
        return {key: _spelled(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(each) for each in value]
    if is_dataclass(value):
        return {
            each.name: _spelled(getattr(value, each.name)) for each in fields(value)
        }
    if isinstance(value, Number):
        return orjson.Fragment(value.digits)
    if isinstance(value, int) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    return value
