"""Newcomers: what came into the working set when others had to leave it.

Never writes. What leaves under pressure leaves right before what it makes room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import OuterRef, Subquery

from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCreated,
    PageFaulted,
    PageMapped,
    PageUpdated,
)
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.kernel.state.state import Segment
from memoryhub.models.events import Event
from memoryhub.queries.paging.lives import LifeStep
from memoryhub.queries.threads.evicted_pages import Place

#: The cause of what leaves because there is no room for another page.
PRESSURE: Final = "pressure"
#: Of events that can bring a page in, or let it grow there: the field with its tokens,
#: and that which tells whether it did.
_TOKENS: Final = {
    SlotAppended.event_type: "cost",
    PageCreated.event_type: "cost",
    PageUpdated.event_type: "cost",
    PageMapped.event_type: "tokens",
    PageFaulted.event_type: "cost",
}
_CAME: Final = {
    SlotAppended.event_type: "mapped",
    PageCreated.event_type: "mapped",
    PageFaulted.event_type: "promoted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A page that came into the working set, or grew there, and its tokens then."""

    page_id: str
    tokens: int
    seq: int


def read_newcomer(seq: int, kind: str, body: Mapping[str, Any]) -> Newcomer | None:
    """Read what an event brought into the working set; None for nothing. Pure."""
    page = body
    if kind == SlotAppended.event_type:
        page = {"page_id": slot_page_id(body["index"]), **(body.get("page") or {})}
    tokens = page.get(_TOKENS[kind]) if kind in _TOKENS else None
    came = page.get(_CAME[kind], False) if kind in _CAME else True
    if tokens is None or not came:
        return None
    return Newcomer(page_id=page["page_id"], tokens=tokens, seq=seq)


def get_newcomers(
    parts: Sequence[Segment], steps: Iterable[LifeStep]
) -> dict[Place, Newcomer]:
    """Return, by the place of an eviction or a lowering, what it made room for.

    Two queries.
    """
    places = [
        (step.thread, step.seq) for step in steps if step.body.get("cause") == PRESSURE
    ]
    if not places:
        return {}
    came = _arrivals(parts, places)
    bodies = Event.objects.at_places(set(came.values()))
    found = {
        (thread, seq): read_newcomer(seq, kind, orjson.loads(body))
        for thread, seq, kind, body in bodies.values_list(
            "thread_id", "seq", "type", "body"
        )
    }
    newcomers = {place: found.get(after) for place, after in came.items()}
    return {place: each for place, each in newcomers.items() if each is not None}


def _arrivals(parts: Sequence[Segment], places: Sequence[Place]) -> dict[Place, Place]:
    """By the place of each event, that of the next which brings something in."""
    later = Event.objects.filter(
        thread_id=OuterRef("thread_id"), seq__gt=OuterRef("seq"), type__in=[*_TOKENS]
    )
    rows = Event.objects.at_places(places).annotate(
        came=Subquery(later.order_by("seq").values("seq")[:1])
    )
    return {
        (thread, seq): (thread, after)
        for thread, seq, after in rows.values_list("thread_id", "seq", "came")
        if after is not None and after <= _end(parts, thread)
    }


def _end(parts: Sequence[Segment], thread: UUID) -> int:
    return next(part.up_to_seq for part in parts if part.thread == thread)
