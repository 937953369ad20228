"""Rows of checkpoints: what a thread can return to now, inherited ones included."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import orjson

from memoryhub.journal.rows.current_rows import CHUNK, Change, Projection
from memoryhub.journal.rows.rows import CheckpointRow
from memoryhub.kernel.memory import checkpoint_events as events
from memoryhub.kernel.memory.nouns import counts
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.events import Event
from memoryhub.models.working_memory import Checkpoint

#: What a checkpoint from before a noun holds of it.
_NONE = counts(Contents())


def _names(state: ThreadState) -> Iterable[int]:
    return [state.seq_of(clock) for clock in state.memory.checkpoints]


def _made(state: ThreadState, seq: int) -> CheckpointRow | None:
    clock = seq + state.inherited_clock
    found = state.memory.live(clock)
    if found is None:
        return None
    thread, event = state.place(clock)
    return CheckpointRow(
        thread_id=state.id,
        seq=seq,
        name=found.name,
        at=None,
        by=None,
        auto=found.auto,
        parent=None if found.parent is None else state.seq_of(found.parent),
        counts=orjson.dumps(counts(found.contents)).decode(),
        touched=None if found.touched is None else len(found.touched),
        event_thread=thread,
        event_seq=event,
    )


def _differing(change: Change) -> Iterable[int]:
    """Those that an event made, took, or gave another parent or other contents."""
    before, after = change.before.memory.checkpoints, change.after.memory.checkpoints
    return [
        change.after.seq_of(clock)
        for clock in {*before, *after}
        if before.get(clock) is not after.get(clock)
    ]


def _completed(rows: list[CheckpointRow]) -> list[CheckpointRow]:
    """With the time and the actor of their events. One query for 500 of them."""
    found: dict[tuple[UUID, int], tuple[datetime, str]] = {}
    for start in range(0, len(rows), CHUNK):
        places = [(r.event_thread, r.event_seq) for r in rows[start : start + CHUNK]]
        stored = Event.objects.at_places(places)
        for thread, seq, at, by in stored.values_list(
            "thread_id", "seq", "at", "actor"
        ):
            found[thread, seq] = at, by
    return [_dated(row, found.get((row.event_thread, row.event_seq))) for row in rows]


def _dated(row: CheckpointRow, event: tuple[datetime, str] | None) -> CheckpointRow:
    """As it is where a damaged journal has no such event."""
    return row if event is None else row._replace(at=event[0], by=event[1])


def _filled(row: CheckpointRow) -> CheckpointRow:
    """With counts of nouns that came later. Any other text stays for `verify`."""
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
    names=_names,
    made=_made,
    touched=dict.fromkeys(
        (
            events.CheckpointTaken,
            events.CheckpointRestored,
            events.CheckpointDeleted,
            RecordsErased,
        ),
        _differing,
    ),
    completed=_completed,
    filled=_filled,
)
