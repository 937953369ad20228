"""Exact JSON for answers, streams and exports: numbers keep every digit.

See decision 39.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from memoryhub.kernel.text.numbers import Number

#: Characters that some readers take for line ends (str.splitlines does); JSON allows
#: them unescaped.
_LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}


def dump_json(value: Any, *, option: int = 0) -> bytes:
    """Dump a value from content as JSON, as orjson does wherever orjson can."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        # orjson writes 64-bit integers only. The retry raises TypeError for any other
        # value that orjson cannot write.
        return orjson.dumps(_spell_numbers(value), option=option)


def dump_line(value: Any) -> bytes:
    """Dump JSON as `dump_json` does, as a single line without its line end."""
    text = dump_json(value)
    for end, escaped in _LINE_ENDS.items():
        text = text.replace(end, escaped)
    return text


def _spell_numbers(value: Any) -> Any:
    """Return the value with each number that orjson cannot write as its own digits."""
    if isinstance(value, dict):
        return {key: _spell_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_numbers(each) for each in value]
    if is_dataclass(value):
        return {
            each.name: _spell_numbers(getattr(value, each.name))
            for each in fields(value)
        }
    if isinstance(value, Number):
        return orjson.Fragment(value.digits)
    if isinstance(value, int) and value.bit_length() > 63:
        return orjson.Fragment(str(value))
    return value
