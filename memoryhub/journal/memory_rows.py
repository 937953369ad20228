"""The rows of working memory: made from events, so that keys can be listed and swept.

What a row says follows from the journal alone, so `verify` and `rebuild` make the same
rows as the writer did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.journal import statements
from memoryhub.journal.rows import DueRow, KeyRow
from memoryhub.journal.totals import Changes
from memoryhub.kernel import checkpoint_tree
from memoryhub.kernel import memory_events as events
from memoryhub.kernel.bodies import Event
from memoryhub.kernel.erase_events import Range, RecordsErased
from memoryhub.kernel.erased import erased, named
from memoryhub.kernel.events import ThreadForked, ThreadRetired
from memoryhub.kernel.paging import listed
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import KeyEntry
from memoryhub.models.events import Event as StoredEvent
from memoryhub.models.working_memory import DueValue, Key

#: Rows named in one statement.
CHUNK = 500
_ENDED = ("retired", "erased")

Place = tuple[UUID, int]


@dataclass(slots=True)
class Dues:
    """When values are due, as events give and take it; by (thread, seq)."""

    #: Of values that these events made.
    fresh: dict[Place, datetime] = field(default_factory=dict)
    #: Of values that were there: due no sooner than this, if they are due at all.
    later: dict[Place, datetime] = field(default_factory=dict)
    #: No longer due.
    gone: set[Place] = field(default_factory=set)
    #: Threads that ended: nothing of them is due by itself any more.
    ended: set[UUID] = field(default_factory=set)
    #: Records that were erased, whatever they are.
    taken: list[Range] = field(default_factory=list)

    def set(self, place: Place, due_at: datetime | None) -> None:
        """A value was made; one that never expires is never due."""
        if due_at is not None:
            self.fresh[place] = due_at

    def move(self, place: Place, due_at: datetime | None) -> None:
        """A value has another expiry. The latest counts; never cancels for good."""
        if due_at is None:
            self.drop(place)
        elif place in self.fresh:
            self.fresh[place] = max(self.fresh[place], due_at)
        else:
            self.later[place] = max(self.later.get(place, due_at), due_at)

    def drop(self, place: Place) -> None:
        self.fresh.pop(place, None)
        self.later.pop(place, None)
        self.gone.add(place)

    def end(self, thread: UUID) -> None:
        for places in (self.fresh, self.later):
            for place in [each for each in places if each[0] == thread]:
                del places[place]
        self.ended.add(thread)

    def over(self, stored: Mapping[Place, datetime]) -> dict[Place, datetime]:
        """What is stored, as these events leave it."""
        known = {**stored, **self.fresh}
        for place, due_at in self.later.items():
            if place in known:
                known[place] = max(known[place], due_at)
        taken = named(self.taken)
        return {
            place: at
            for place, at in known.items()
            if place not in self.gone
            and place[0] not in self.ended
            and not taken.holds(*place)
        }


@dataclass(slots=True)
class MemoryRows:
    """Rows to put in the place of those that may be there, and rows to take."""

    #: By (thread, key); None for one that is gone.
    keys: dict[tuple[UUID, str], KeyRow | None] = field(default_factory=dict)
    dues: Dues = field(default_factory=Dues)
    #: By thread, of those whose rows these are.
    projects: dict[UUID, UUID] = field(default_factory=dict)
    #: Values that an event took out of the journal, by that event's place.
    erased: dict[Place, list[int]] = field(default_factory=dict)


class Change(NamedTuple):
    """What an event did to a thread."""

    before: ThreadState
    event: Event
    after: ThreadState


def project(
    rows: MemoryRows, before: ThreadState, recorded: Recorded, after: ThreadState
) -> None:
    """Add what an event leads to, given the states before and after it."""
    if make := _MAKERS.get(type(recorded.event)):
        rows.projects[before.id] = before.project
        make(rows, Change(before, recorded.event, after))


def _set(rows: MemoryRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.KeySet)
    _keys(rows, change, [event.key])
    rows.dues.set((change.before.id, change.after.seq), event.expires_at)


def _retimed(rows: MemoryRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.KeyRetimed)
    _keys(rows, change, [event.key])
    value = change.before.memory.contents.keys[event.key].value
    rows.dues.move(change.before.place(value), event.expires_at)


def _deleted(rows: MemoryRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.KeyDeleted)
    _keys(rows, change, [event.key])


def _cleared(rows: MemoryRows, change: Change) -> None:
    _keys(rows, change, change.before.memory.contents.keys)


def _expired(rows: MemoryRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.KeysExpired)
    _keys(rows, change, [each.key for each in event.keys])


def _restored(rows: MemoryRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.CheckpointRestored)
    if "keys" in event.parts:
        names = checkpoint_tree.names_between(change.before.memory, None, event.target)
        _keys(rows, change, names)


def _forked(rows: MemoryRows, change: Change) -> None:
    _keys(rows, change, change.before.memory.contents.keys)


def _erased(rows: MemoryRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.ValuesErased)
    rows.erased[change.before.id, change.after.seq] = event.seqs
    for seq in event.seqs:
        rows.dues.drop((change.before.id, seq))


def _records_erased(rows: MemoryRows, change: Change) -> None:
    event, before = change.event, change.before
    assert isinstance(event, RecordsErased)
    gone = erased(before, event.ranges)
    held = before.memory.contents.keys
    names = [name for name, each in listed(held) if gone.at(each.value)]
    _keys(rows, change, names)
    rows.dues.taken += [each for each in event.ranges if each[0] == before.id]


def _retired(rows: MemoryRows, change: Change) -> None:
    """What nobody can read is neither listed nor swept; it goes with the thread."""
    for name in change.before.memory.contents.keys:
        rows.keys[change.before.id, name] = None
    rows.dues.end(change.before.id)


def _keys(rows: MemoryRows, change: Change, names: Iterable[str]) -> None:
    """The rows of these keys, as they are after the event."""
    after = change.after
    for name in names:
        entry = after.memory.contents.keys.get(name)
        rows.keys[after.id, name] = None if entry is None else _row(after, name, entry)


def _row(state: ThreadState, name: str, entry: KeyEntry) -> KeyRow:
    thread, seq = state.place(entry.value)
    return KeyRow(
        thread_id=state.id,
        key=name,
        project_id=state.project,
        version=entry.version,
        value_thread=thread,
        value_seq=seq,
        bytes=entry.bytes,
        expires_at=entry.expires_at,
    )


def key_count(state: ThreadState) -> int:
    """How many rows its keys have; none once it has ended."""
    return 0 if state.status in _ENDED else len(state.memory.contents.keys)


def key_rows(state: ThreadState) -> list[KeyRow]:
    """All rows of a thread's keys, by name."""
    if not key_count(state):
        return []
    keys = state.memory.contents.keys
    return [_row(state, name, entry) for name, entry in sorted(keys.items())]


_MAKERS: dict[type[Event], Callable[[MemoryRows, Change], None]] = {
    ThreadForked: _forked,
    ThreadRetired: _retired,
    events.KeySet: _set,
    events.KeyRetimed: _retimed,
    events.KeyDeleted: _deleted,
    events.KeysCleared: _cleared,
    events.KeysExpired: _expired,
    events.CheckpointRestored: _restored,
    events.ValuesErased: _erased,
    RecordsErased: _records_erased,
}


def write(rows: MemoryRows, changes: Changes) -> None:
    """Put them in their places; the erased values go for good."""
    statements.KEYS.rows([row for row in rows.keys.values() if row is not None])
    gone: dict[UUID, list[str]] = {}
    for (thread, name), row in rows.keys.items():
        if row is None:
            gone.setdefault(thread, []).append(name)
    for thread, names in gone.items():
        for some in _chunks(names):
            Key.objects.filter(thread_id=thread, key__in=some).delete()
    _write_dues(rows.dues, rows.projects)
    for (thread, by), seqs in rows.erased.items():
        _purge(changes, thread, seqs, by=by)


def _write_dues(dues: Dues, projects: Mapping[UUID, UUID]) -> None:
    statements.DUES.rows(
        [
            DueRow(thread, seq, projects[thread], due_at)
            for (thread, seq), due_at in dues.fresh.items()
        ]
    )
    for (thread, seq), due_at in dues.later.items():
        sooner = DueValue.objects.filter(thread_id=thread, seq=seq, due_at__lt=due_at)
        sooner.update(due_at=due_at)
    gone: dict[UUID, list[int]] = {}
    for thread, seq in dues.gone:
        gone.setdefault(thread, []).append(seq)
    for thread, seqs in gone.items():
        for some in _chunks(seqs):
            DueValue.objects.filter(thread_id=thread, seq__in=some).delete()
    if dues.ended:
        DueValue.objects.filter(thread__in=dues.ended).delete()


def _purge(changes: Changes, thread: UUID, seqs: Collection[int], *, by: int) -> None:
    """Take the values of these events. A repeat takes nothing more."""
    values = StoredEvent.objects.filter(
        thread_id=thread,
        seq__in=seqs,
        type=events.KeySet.event_type,
        erased_by__isnull=True,
    )
    changes.take_payloads(values, thread, by=by)


def stored_dues(thread: UUID, seqs: Collection[int]) -> dict[Place, datetime]:
    """When these values of a thread are due, of those that are. One query."""
    rows = DueValue.objects.filter(thread_id=thread, seq__in=seqs)
    return {(thread, seq): at for seq, at in rows.values_list("seq", "due_at")}


def _chunks(items: list[Any]) -> Iterable[list[Any]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
