"""Content that a thread's state refers to by clock, opened. Never writes."""

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

#: Events read in one statement.
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An event by its clock: when, by whom, and its content if that was asked for."""

    at: datetime
    actor: str
    #: None once erased, or when it was not asked for.
    content: Mapping[str, Any] | None
    erased: bool


def opened(
    thread: Thread, state: ThreadState, clocks: Collection[int], *, content: bool = True
) -> dict[int, Opened]:
    """Open the events at these clocks, an ancestor's too.

    One query for 500 of them. `thread` comes with its subject: forks share it. Raises
    CorruptError for a missing event.
    """
    places = {state.place(clock): clock for clock in sorted(set(clocks))}
    found = opened_at(thread, [*places], content=content)
    return {places[place]: each for place, each in found.items()}


def opened_at(
    thread: Thread, places: Sequence[tuple[UUID, int]], *, content: bool = True
) -> dict[tuple[UUID, int], Opened]:
    """Open the events at these places, (thread, seq); else as `opened`."""
    found: dict[tuple[UUID, int], Opened] = {}
    for start in range(0, len(places), CHUNK):
        chunk = places[start : start + CHUNK]
        found |= _read(thread, chunk, content=content)
    for each in places:
        if each not in found:
            raise CorruptError(missing_seq=each[1])
    return found


def _read(
    thread: Thread, places: Sequence[tuple[UUID, int]], *, content: bool
) -> dict[tuple[UUID, int], Opened]:
    rows = Event.objects.at_places(places).defer("body", "chain", "payload_digest")
    if not content:
        rows = rows.defer("body", "chain", "payload_digest", "payload")
    return {
        (row.thread_id, row.seq): Opened(
            at=row.at,
            actor=row.actor,
            content=replay.opened(thread, row) if content and row.payload else None,
            erased=row.erased_by is not None,
        )
        for row in rows
    }
