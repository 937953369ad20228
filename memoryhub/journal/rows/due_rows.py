"""Rows of what is due: values of keys that are erased once their time is over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.journal.rows import statements
from memoryhub.journal.rows.current_rows import CHUNK, Change
from memoryhub.journal.rows.rows import DueRow
from memoryhub.journal.rows.totals import Changes, drop_terms
from memoryhub.kernel.memory import key_events as events
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.erased import named
from memoryhub.kernel.state.events import ThreadRetired
from memoryhub.models.events import Event as StoredEvent
from memoryhub.models.working_memory import DueValue

EventAddress = tuple[UUID, int]


@dataclass(slots=True)
class Dues:
    """When values are due, as events give and take it; by (thread, seq)."""

    #: Of values that these events made.
    fresh: dict[EventAddress, datetime] = field(default_factory=dict)
    #: Of values that were there: due no sooner than this, if they are due at all.
    later: dict[EventAddress, datetime] = field(default_factory=dict)
    #: No longer due.
    gone: set[EventAddress] = field(default_factory=set)
    #: Threads that ended: nothing of them is due by itself any more.
    ended: set[UUID] = field(default_factory=set)
    #: Records that were erased, whatever they are.
    taken: list[Range] = field(default_factory=list)

    def set(self, place: EventAddress, due_at: datetime | None) -> None:
        """Note that a value was made; one that never expires is never due."""
        if due_at is not None:
            self.fresh[place] = due_at

    def move(self, place: EventAddress, due_at: datetime | None) -> None:
        """Note that a value has another expiry.

        The latest counts; never cancels for good.
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

    def over(
        self, stored: Mapping[EventAddress, datetime]
    ) -> dict[EventAddress, datetime]:
        """Return the stored dues as these events leave them."""
        dues = {**stored, **self.fresh}
        for place, due_at in self.later.items():
            if place in dues:
                dues[place] = max(dues[place], due_at)
        taken = named(self.taken)
        return {
            place: at
            for place, at in dues.items()
            if place not in self.gone
            and place[0] not in self.ended
            and not taken.holds(*place)
        }


@dataclass(slots=True)
class DueRows:
    """When values are due, and values that are taken."""

    dues: Dues = field(default_factory=Dues)
    #: By thread, of those whose rows these are.
    projects: dict[UUID, UUID] = field(default_factory=dict)
    #: Values that an event took out of the journal, by that event's place.
    erased: dict[EventAddress, list[int]] = field(default_factory=dict)
    #: Values that were to stay, and expire from here on.
    passing: list[EventAddress] = field(default_factory=list)


def project(rows: DueRows, change: Change) -> None:
    """Add what an event leads to, given the states before and after it."""
    if make := _MAKERS.get(type(change.event)):
        rows.projects[change.before.id] = change.before.project
        make(rows, change)


def _set(rows: DueRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.KeySet)
    rows.dues.set((change.before.id, change.after.seq), event.expires_at)


def _retimed(rows: DueRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.KeyRetimed)
    value = change.before.memory.contents.keys[event.key].value
    place = change.before.place(value)
    rows.dues.move(place, event.expires_at)
    if event.expires_at is not None:
        rows.passing.append(place)


def _erased(rows: DueRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, events.ValuesErased)
    rows.erased[change.before.id, change.after.seq] = event.seqs
    for seq in event.seqs:
        rows.dues.drop((change.before.id, seq))


def _records_erased(rows: DueRows, change: Change) -> None:
    event = change.event
    assert isinstance(event, RecordsErased)
    own = change.before.id
    rows.dues.taken += [each for each in event.ranges if each[0] == own]


def _retired(rows: DueRows, change: Change) -> None:
    """What nobody can read is not swept by itself; it goes with the thread."""
    rows.dues.end(change.before.id)


_MAKERS: dict[type[Event], Callable[[DueRows, Change], None]] = {
    ThreadRetired: _retired,
    events.KeySet: _set,
    events.KeyRetimed: _retimed,
    events.ValuesErased: _erased,
    RecordsErased: _records_erased,
}


def write(rows: DueRows, changes: Changes) -> None:
    """Put them in their places; the erased values go for good."""
    _write_dues(rows.dues, rows.projects)
    for thread, seq in rows.passing:
        drop_terms(thread, seq, seq)
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
        for chunk in _chunks(seqs):
            DueValue.objects.filter(thread_id=thread, seq__in=chunk).delete()
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


def stored_dues(thread: UUID, seqs: Collection[int]) -> dict[EventAddress, datetime]:
    """Return when these values of a thread are due, of those that are. One query."""
    rows = DueValue.objects.filter(thread_id=thread, seq__in=seqs)
    return {(thread, seq): at for seq, at in rows.values_list("seq", "due_at")}


def _chunks(items: list[Any]) -> Iterable[list[Any]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
