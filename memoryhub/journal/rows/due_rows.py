"""Rows of due values: values of keys that are erased once their time is over.

See decision 16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.journal.rows import statements
from memoryhub.journal.rows.current_rows import CHUNK, StateChange
from memoryhub.journal.rows.rows import DueRow
from memoryhub.journal.rows.totals import TotalsChanges, drop_terms
from memoryhub.kernel.memory import key_events as events
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.erased import resolve_places
from memoryhub.kernel.state.events import ThreadRetired
from memoryhub.models.events import Event as StoredEvent
from memoryhub.models.working_memory import DueValue

EventAddress = tuple[UUID, int]


@dataclass(slots=True)
class Dues:
    """Times at which values are due, as events set and drop them; by (thread, seq)."""

    #: Values that these events made.
    fresh: dict[EventAddress, datetime] = field(default_factory=dict)
    #: Values stored before: due no sooner than this time, if they are due at all.
    later: dict[EventAddress, datetime] = field(default_factory=dict)
    #: Values no longer due.
    gone: set[EventAddress] = field(default_factory=set)
    #: Threads that ended: none of their values is due any more.
    ended: set[UUID] = field(default_factory=set)
    #: Ranges of erased records, of whatever kind.
    taken: list[Range] = field(default_factory=list)

    def set(self, place: EventAddress, due_at: datetime | None) -> None:
        """Note a new value; a value that never expires is never due."""
        if due_at is not None:
            self.fresh[place] = due_at

    def move(self, place: EventAddress, due_at: datetime | None) -> None:
        """Note that a value has another expiry.

        The latest expiry counts; None cancels for good.
        """
        if due_at is None:
            self.drop(place)
        elif place in self.fresh:
            self.fresh[place] = max(self.fresh[place], due_at)
        else:
            self.later[place] = max(self.later.get(place, due_at), due_at)

    def drop(self, place: EventAddress) -> None:
        self.fresh.pop(place, None)
        self.later.pop(place, None)
        self.gone.add(place)

    def end(self, thread: UUID) -> None:
        for places in (self.fresh, self.later):
            for place in [each for each in places if each[0] == thread]:
                del places[place]
        self.ended.add(thread)

    def merge_stored(
        self, stored: Mapping[EventAddress, datetime]
    ) -> dict[EventAddress, datetime]:
        """Return the stored due times with the changes of these events."""
        dues = {**stored, **self.fresh}
        for place, due_at in self.later.items():
            if place in dues:
                dues[place] = max(dues[place], due_at)
        taken = resolve_places(self.taken)
        return {
            place: at
            for place, at in dues.items()
            if place not in self.gone
            and place[0] not in self.ended
            and not taken.has_place(*place)
        }


@dataclass(slots=True)
class DueRows:
    """Times at which values are due, and values to be erased."""

    dues: Dues = field(default_factory=Dues)
    #: Projects by thread, of the threads with rows here.
    projects: dict[UUID, UUID] = field(default_factory=dict)
    #: Seqs of values that an event erased, by (thread, seq) of that event.
    erased: dict[EventAddress, list[int]] = field(default_factory=dict)
    #: Values without an expiry so far that expire from here on.
    passing: list[EventAddress] = field(default_factory=list)


def project(rows: DueRows, change: StateChange) -> None:
    """Add the rows that an event leads to, given the states before and after it."""
    if make := _MAKERS.get(type(change.event)):
        rows.projects[change.before.id] = change.before.project
        make(rows, change)


def _note_set(rows: DueRows, change: StateChange) -> None:
    event = change.event
    assert isinstance(event, events.KeySet)
    rows.dues.set((change.before.id, change.after.seq), event.expires_at)


def _note_retimed(rows: DueRows, change: StateChange) -> None:
    event = change.event
    assert isinstance(event, events.KeyRetimed)
    value = change.before.memory.contents.keys[event.key].value
    place = change.before.locate_event(value)
    rows.dues.move(place, event.expires_at)
    if event.expires_at is not None:
        rows.passing.append(place)


def _note_erased(rows: DueRows, change: StateChange) -> None:
    event = change.event
    assert isinstance(event, events.ValuesErased)
    rows.erased[change.before.id, change.after.seq] = event.seqs
    for seq in event.seqs:
        rows.dues.drop((change.before.id, seq))


def _note_records_erased(rows: DueRows, change: StateChange) -> None:
    event = change.event
    assert isinstance(event, RecordsErased)
    own = change.before.id
    rows.dues.taken += [each for each in event.ranges if each[0] == own]


def _note_retired(rows: DueRows, change: StateChange) -> None:
    """Drop the dues of a retired thread: its values go with the thread."""
    rows.dues.end(change.before.id)


_MAKERS: dict[type[EventBody], Callable[[DueRows, StateChange], None]] = {
    ThreadRetired: _note_retired,
    events.KeySet: _note_set,
    events.KeyRetimed: _note_retimed,
    events.ValuesErased: _note_erased,
    RecordsErased: _note_records_erased,
}


def write(rows: DueRows, changes: TotalsChanges) -> None:
    """Write the due times, and erase the values for good."""
    _write_dues(rows.dues, rows.projects)
    for thread, seq in rows.passing:
        drop_terms(thread, seq, seq)
    for (thread, by), seqs in rows.erased.items():
        _purge_values(changes, thread, seqs, by=by)


def _write_dues(dues: Dues, projects: Mapping[UUID, UUID]) -> None:
    statements.DUES.write(
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
        for chunk in _split_chunks(seqs):
            DueValue.objects.filter(thread_id=thread, seq__in=chunk).delete()
    if dues.ended:
        DueValue.objects.filter(thread__in=dues.ended).delete()


def _purge_values(
    changes: TotalsChanges, thread: UUID, seqs: Collection[int], *, by: int
) -> None:
    """Erase the values of these events. A repeat erases nothing more."""
    values = StoredEvent.objects.filter(
        thread_id=thread,
        seq__in=seqs,
        type=events.KeySet.event_type,
        erased_by__isnull=True,
    )
    changes.take_payloads(values, thread, by=by)


def list_stored_dues(
    thread: UUID, seqs: Collection[int]
) -> dict[EventAddress, datetime]:
    """Return the due times of a thread's values, for those that are due. One query."""
    rows = DueValue.objects.filter(thread_id=thread, seq__in=seqs)
    return {(thread, seq): at for seq, at in rows.values_list("seq", "due_at")}


def _split_chunks(items: list[Any]) -> Iterable[list[Any]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
