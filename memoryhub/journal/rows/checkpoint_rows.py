"""Rows of checkpoints that a thread can return to now, inherited ones included."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import orjson

from memoryhub.journal.rows.current_rows import CHUNK, Projection, StateChange
from memoryhub.journal.rows.rows import CheckpointRow, MarkedTurnRow
from memoryhub.kernel.memory import checkpoint_events as events
from memoryhub.kernel.memory.nouns import count_contents
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.events import Event
from memoryhub.models.working_memory import Checkpoint

#: A row that names its event.
EventRow = TypeVar("EventRow", CheckpointRow, MarkedTurnRow)

#: Counts that a checkpoint from before a noun holds of that noun.
_NONE = count_contents(Contents())


def _list_seqs(state: ThreadState) -> Iterable[int]:
    return [state.to_seq(clock) for clock in state.memory.checkpoints]


def _build_row(state: ThreadState, seq: int) -> CheckpointRow | None:
    clock = seq + state.inherited_clock
    found = state.memory.find_live(clock)
    if found is None:
        return None
    thread, event = state.locate_event(clock)
    return CheckpointRow(
        thread_id=state.id,
        seq=seq,
        name=found.name,
        at=None,
        by=None,
        auto=found.auto,
        parent=None if found.parent is None else state.to_seq(found.parent),
        counts=orjson.dumps(count_contents(found.contents)).decode(),
        touched=None if found.touched is None else len(found.touched),
        event_thread=thread,
        event_seq=event,
    )


def _list_changed(change: StateChange) -> Iterable[int]:
    """List checkpoints that an event made, deleted or changed.

    A change is another parent or other contents.
    """
    before, after = change.before.memory.checkpoints, change.after.memory.checkpoints
    return [
        change.after.to_seq(clock)
        for clock in {*before, *after}
        if before.get(clock) is not after.get(clock)
    ]


def add_event_data(rows: list[EventRow]) -> list[EventRow]:
    """Add the time and the actor of each row's event. One query for 500 rows."""
    found: dict[tuple[UUID, int], tuple[datetime, str]] = {}
    for start in range(0, len(rows), CHUNK):
        places = [(r.event_thread, r.event_seq) for r in rows[start : start + CHUNK]]
        stored = Event.objects.filter_places(places)
        for thread, seq, at, by in stored.values_list(
            "thread_id", "seq", "at", "actor"
        ):
            found[thread, seq] = at, by
    return [
        _add_date(row, found.get((row.event_thread, row.event_seq))) for row in rows
    ]


def _add_date(row: EventRow, event: tuple[datetime, str] | None) -> EventRow:
    """Add an event's time and actor, unless a damaged journal lacks the event."""
    return row if event is None else row._replace(at=event[0], by=event[1])


def _fill_counts(row: CheckpointRow) -> CheckpointRow:
    """Add counts of nouns that came later. `verify` reports any other text."""
    try:
        stored = orjson.loads(row.counts)
    except orjson.JSONDecodeError:
        return row
    if not isinstance(stored, dict) or not stored.keys() < _NONE.keys():
        return row
    return row._replace(counts=orjson.dumps(_NONE | stored).decode())


CHECKPOINTS = Projection(
    word="checkpoint_rows",
    model=Checkpoint,
    row=CheckpointRow,
    names=_list_seqs,
    build_row=_build_row,
    changed_names=dict.fromkeys(
        (
            events.CheckpointTaken,
            events.CheckpointRestored,
            events.CheckpointDeleted,
            RecordsErased,
        ),
        _list_changed,
    ),
    complete_rows=add_event_data,
    fill_row=_fill_counts,
)
