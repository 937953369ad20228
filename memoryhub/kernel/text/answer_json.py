"""JSON in a model's answer, whatever text surrounds it. Pure, linear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

#: Most brackets in prose at which JSON is tried.
_LOOKED_AT = 64
_FENCED = re.compile(r"```[A-Za-z]*\s*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")


def iter_values(text: str) -> Iterator[Any]:
    """Yield JSON of an answer: as a whole, in fences, then wherever it begins."""
    for part in (text, *(found[1] for found in _FENCED.finditer(text))):
        try:
            yield _DECODER.decode(part.strip())
        except (ValueError, RecursionError):
            continue
    end = 0
    for number, opening in enumerate(_OPENING.finditer(text)):
        if number >= _LOOKED_AT:
            return
        if opening.start() < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
