"""Parser of the claims in a model's answer about an exchange. Pure.

Accepts a JSON array that is bare, fenced, inside prose, or one object deep. An invalid
item is dropped and counted, so that one mistake costs one claim.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from memoryhub.kernel.knowledge.facts import (
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    NewFact,
    is_valid_text,
)
from memoryhub.kernel.text import times
from memoryhub.kernel.text.answer_json import iter_values

#: Most claims of one answer; further claims are dropped.
MAX_CLAIMS: Final = 20


class ClaimExtraction(NamedTuple):
    """Valid claims of a model's answer, and the number of dropped items."""

    claims: tuple[NewFact, ...]
    dropped: int


def parse_claims(text: str) -> ClaimExtraction | None:
    """Parse the claims in an answer; None when the answer has no JSON array."""
    found: list[Any] | None = None
    for items in _iter_arrays(text):
        if any(isinstance(item, dict) for item in items):
            found = items
            break
        found = items if found is None else found
    if found is None:
        return None
    claims = [claim for item in found if (claim := _build_claim(item)) is not None]
    kept = tuple(claims[:MAX_CLAIMS])
    return ClaimExtraction(claims=kept, dropped=len(found) - len(kept))


def _iter_arrays(text: str) -> Iterator[list[Any]]:
    """Yield the arrays of an answer, and objects' only arrays, in the text's order."""
    for value in iter_values(text):
        if isinstance(value, list):
            yield value
        elif isinstance(value, dict):
            inner = [each for each in value.values() if isinstance(each, list)]
            if len(inner) == 1:
                yield inner[0]


def _build_claim(item: Any) -> NewFact | None:
    """Build the claim of a JSON item; None if the item is no valid claim."""
    if not isinstance(item, dict):
        return None
    entity = _find_text(item.get("entity"), MAX_ENTITY)
    predicate = _find_text(item.get("predicate"), MAX_PREDICATE)
    value = item.get("value")
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    value = _find_text(value, MAX_VALUE, lines=True)
    if entity is None or predicate is None or value is None:
        return None
    begin = times.parse_instant(item.get("valid_from"))
    end = times.parse_instant(item.get("valid_until"))
    if begin is not None and end is not None and end <= begin:
        return None
    sure: Any = item.get("confidence")
    is_number = isinstance(sure, int | float) and not isinstance(sure, bool)
    return NewFact(
        entity=entity,
        predicate=predicate,
        value=value,
        origin="model",
        confidence=float(sure) if is_number and 0 <= sure <= 1 else None,
        valid_from=begin,
        valid_until=end,
        many=item.get("many") is True,
    )


def _find_text(text: Any, most: int, *, lines: bool = False) -> str | None:
    is_valid = isinstance(text, str) and is_valid_text(text, most, lines=lines)
    return text if is_valid else None
