"""Newcomers: pages that entered the working set when others had to leave.

Never writes. An eviction under pressure comes right before the event that needs the
room.
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
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.state import LineageSegment
from memoryhub.models.events import Event
from memoryhub.queries.paging.lives import LifeStep
from memoryhub.queries.threads.evicted_pages import Place

#: The cause of evictions that make room for another page.
PRESSURE: Final = "pressure"
#: By type of event that can map or enlarge a page: the field with the page's tokens,
#: and the field that tells whether the page was mapped.
_TOKEN_FIELDS: Final = {
    SlotAppended.event_type: "cost",
    PageCreated.event_type: "cost",
    PageUpdated.event_type: "cost",
    PageMapped.event_type: "tokens",
    PageFaulted.event_type: "cost",
}
_MAPPED_FIELDS: Final = {
    SlotAppended.event_type: "mapped",
    PageCreated.event_type: "mapped",
    PageFaulted.event_type: "promoted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A page that entered the working set or grew there, and its tokens then."""

    page_id: str
    tokens: int
    seq: int


def read_newcomer(seq: int, kind: str, body: Mapping[str, Any]) -> Newcomer | None:
    """Return the page that an event mapped or enlarged; None without one. Pure."""
    page = body
    if kind == SlotAppended.event_type:
        page = {
            "page_id": build_slot_page_id(body["index"]),
            **(body.get("page") or {}),
        }
    tokens = page.get(_TOKEN_FIELDS[kind]) if kind in _TOKEN_FIELDS else None
    came = page.get(_MAPPED_FIELDS[kind], False) if kind in _MAPPED_FIELDS else True
    if tokens is None or not came:
        return None
    return Newcomer(page_id=page["page_id"], tokens=tokens, seq=seq)


def get_newcomers(
    parts: Sequence[LineageSegment], steps: Iterable[LifeStep]
) -> dict[Place, Newcomer]:
    """Return, by place of an eviction or shortening, the page that needed the room.

    Two queries.
    """
    places = [
        (step.thread, step.seq) for step in steps if step.body.get("cause") == PRESSURE
    ]
    if not places:
        return {}
    came = _map_arrivals(parts, places)
    bodies = Event.objects.filter_places(set(came.values()))
    found = {
        (thread, seq): read_newcomer(seq, kind, orjson.loads(body))
        for thread, seq, kind, body in bodies.values_list(
            "thread_id", "seq", "type", "body"
        )
    }
    newcomers = {place: found.get(after) for place, after in came.items()}
    return {place: each for place, each in newcomers.items() if each is not None}


def _map_arrivals(
    parts: Sequence[LineageSegment], places: Sequence[Place]
) -> dict[Place, Place]:
    """Map the place of each event to the next event that can map a page."""
    later = Event.objects.filter(
        thread_id=OuterRef("thread_id"),
        seq__gt=OuterRef("seq"),
        type__in=[*_TOKEN_FIELDS],
    )
    rows = Event.objects.filter_places(places).annotate(
        came=Subquery(later.order_by("seq").values("seq")[:1])
    )
    return {
        (thread, seq): (thread, after)
        for thread, seq, after in rows.values_list("thread_id", "seq", "came")
        if after is not None and after <= _get_last_seq(parts, thread)
    }


def _get_last_seq(parts: Sequence[LineageSegment], thread: UUID) -> int:
    return next(part.up_to_seq for part in parts if part.thread == thread)
