"""Answers: the claims in what a model says of an exchange, whatever stands around them.

Pure. A JSON array, bare, fenced, inside prose or one object deep; what is no claim is
dropped and counted, so that one slip costs one claim.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from memoryhub.kernel.knowledge.facts import MAX_ENTITY, MAX_PREDICATE, MAX_VALUE, fits
from memoryhub.kernel.text import times
from memoryhub.kernel.text.answer_json import values

#: Claims of one answer; more are dropped.
MAX_CLAIMS: Final = 20


class Claim(NamedTuple):
    """What is claimed, its texts within their bounds."""

    entity: str
    predicate: str
    value: str
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    many: bool = False


class Answer(NamedTuple):
    """The claims of an answer, and how many others there were in it."""

    claims: tuple[Claim, ...]
    dropped: int


def read(text: str) -> Answer | None:
    """Return the claims in an answer; None when there is no JSON array in it."""
    found: list[Any] | None = None
    for items in _arrays(text):
        if any(isinstance(item, dict) for item in items):
            found = items
            break
        found = items if found is None else found
    if found is None:
        return None
    claims = [claim for item in found if (claim := _claim(item)) is not None]
    kept = tuple(claims[:MAX_CLAIMS])
    return Answer(claims=kept, dropped=len(found) - len(kept))


def _arrays(text: str) -> Iterator[list[Any]]:
    """The arrays of an answer, in the order in which its JSON is found."""
    for value in values(text):
        yield from _array(value)


def _array(value: Any) -> Iterator[list[Any]]:
    """An array, or the only one among the members of an object."""
    if isinstance(value, dict):
        inner = [each for each in value.values() if isinstance(each, list)]
        value = inner[0] if len(inner) == 1 else value
    if isinstance(value, list):
        yield value


def _claim(item: Any) -> Claim | None:
    """The claim that an item makes; None if it makes none."""
    if not isinstance(item, dict):
        return None
    entity = _text(item.get("entity"), MAX_ENTITY)
    predicate = _text(item.get("predicate"), MAX_PREDICATE)
    value = _text(_plain(item.get("value")), MAX_VALUE, lines=True)
    if entity is None or predicate is None or value is None:
        return None
    begin, end = (
        times.instant(item.get("valid_from")),
        times.instant(item.get("valid_until")),
    )
    if begin is not None and end is not None and end <= begin:
        return None
    return Claim(
        entity=entity,
        predicate=predicate,
        value=value,
        confidence=_share(item.get("confidence")),
        valid_from=begin,
        valid_until=end,
        many=item.get("many") is True,
    )


def _plain(value: Any) -> Any:
    """A number or boolean as it is written; a text as it is."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _text(text: Any, most: int, *, lines: bool = False) -> str | None:
    return text if isinstance(text, str) and fits(text, most, lines=lines) else None


def _share(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None
