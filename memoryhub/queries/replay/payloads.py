"""Contents of events that a thread's state refers to by clock. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.errors import CorruptError
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay

#: Maximum number of events read in one statement.
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEvent:
    """An event at a clock: its time, its actor and, if requested, its content."""

    at: datetime
    actor: str
    #: None if erased or not requested.
    content: Mapping[str, Any] | None
    erased: bool


def open_events(
    thread: Thread, state: ThreadState, clocks: Collection[int], *, content: bool = True
) -> dict[int, OpenedEvent]:
    """Open the events at these clocks, those of ancestors included.

    One query per 500 events. `thread` comes with its subject: forks share the subject.
    Raises CorruptError for a missing event.
    """
    places = {state.locate_event(clock): clock for clock in sorted(set(clocks))}
    found = open_events_at(thread, [*places], content=content)
    return {places[place]: each for place, each in found.items()}


def open_events_at(
    thread: Thread, places: Sequence[tuple[UUID, int]], *, content: bool = True
) -> dict[tuple[UUID, int], OpenedEvent]:
    """Open the events at these places, (thread, seq); else as `open_events`."""
    found: dict[tuple[UUID, int], OpenedEvent] = {}
    for start in range(0, len(places), CHUNK):
        chunk = places[start : start + CHUNK]
        found |= _read_events(thread, chunk, content=content)
    for each in places:
        if each not in found:
            raise CorruptError(missing_seq=each[1])
    return found


def _read_events(
    thread: Thread, places: Sequence[tuple[UUID, int]], *, content: bool
) -> dict[tuple[UUID, int], OpenedEvent]:
    rows = Event.objects.filter_places(places).defer("body", "chain", "payload_digest")
    if not content:
        rows = rows.defer("body", "chain", "payload_digest", "payload")
    return {
        (row.thread_id, row.seq): OpenedEvent(
            at=row.at,
            actor=row.actor,
            content=replay.open_content(thread, row)
            if content and row.payload
            else None,
            erased=row.erased_by is not None,
        )
        for row in rows
    }
