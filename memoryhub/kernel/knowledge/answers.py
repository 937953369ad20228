"""Parser of the claims in a model's answer about an exchange. Pure.

Accepts a JSON array that is bare, fenced, inside prose, or one object deep. An invalid
item is dropped and counted, so that one mistake costs one claim.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from memoryhub.kernel.knowledge.facts import (
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    is_valid_text,
)
from memoryhub.kernel.text import times
from memoryhub.kernel.text.answer_json import iter_values

#: Most claims of one answer; further claims are dropped.
MAX_CLAIMS: Final = 20


class ExtractedClaim(NamedTuple):
    """A claim of a model, with texts within their bounds."""

    entity: str
    predicate: str
    value: str
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    many: bool = False


class ClaimExtraction(NamedTuple):
    """Valid claims of a model's answer, and the number of dropped items."""

    claims: tuple[ExtractedClaim, ...]
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
    """Yield the arrays of an answer in the order of its text."""
    for value in iter_values(text):
        yield from _iter_inner_arrays(value)


def _iter_inner_arrays(value: Any) -> Iterator[list[Any]]:
    """Yield an array, or the only array among the members of an object."""
    if isinstance(value, dict):
        inner = [each for each in value.values() if isinstance(each, list)]
        value = inner[0] if len(inner) == 1 else value
    if isinstance(value, list):
        yield value


def _build_claim(item: Any) -> ExtractedClaim | None:
    """Build the claim of a JSON item; None if the item is no valid claim."""
    if not isinstance(item, dict):
        return None
    entity = _find_text(item.get("entity"), MAX_ENTITY)
    predicate = _find_text(item.get("predicate"), MAX_PREDICATE)
    value = _find_text(_to_text(item.get("value")), MAX_VALUE, lines=True)
    if entity is None or predicate is None or value is None:
        return None
    begin, end = (
        times.parse_instant(item.get("valid_from")),
        times.parse_instant(item.get("valid_until")),
    )
    if begin is not None and end is not None and end <= begin:
        return None
    return ExtractedClaim(
        entity=entity,
        predicate=predicate,
        value=value,
        confidence=_find_confidence(item.get("confidence")),
        valid_from=begin,
        valid_until=end,
        many=item.get("many") is True,
    )


def _to_text(value: Any) -> Any:
    """Convert a number or boolean to its JSON text; return other values as they are."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _find_text(text: Any, most: int, *, lines: bool = False) -> str | None:
    return (
        text
        if isinstance(text, str) and is_valid_text(text, most, lines=lines)
        else None
    )


def _find_confidence(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None
