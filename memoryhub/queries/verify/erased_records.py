"""Checks that a thread's rows match the erasures in its journal.

Never writes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.journal.rows import projections
from memoryhub.journal.rows.page_rows import PURGED
from memoryhub.journal.rows.rows import DerivationRow
from memoryhub.journal.rows.spans import iter_conditions
from memoryhub.kernel.memory.key_events import KeySet, ValuesErased
from memoryhub.kernel.state.erase_events import Range, RecordsErased, ThreadErased
from memoryhub.kernel.state.erased import ErasedPlaces, Spans, resolve_places
from memoryhub.kernel.state.page_events import PageDeleted
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import PageLevel
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import heads

#: Events that may lawfully take the payload of an earlier one.
ERASERS = ("thread.erased", "records.erased", "values.erased", "page.deleted")


class Erasers:
    """A thread's events that took payloads, each read once."""

    def __init__(self, thread: UUID) -> None:
        self.thread = thread
        self._erasures: dict[int, tuple[Event, ErasedPlaces | None] | None] = {}

    def is_lawful(self, row: Event) -> bool:
        """Tell whether the event in `erased_by` exists and covers this record."""
        assert row.erased_by is not None
        if row.erased_by not in self._erasures:
            self._erasures[row.erased_by] = self._read_eraser(row.erased_by)
        found = self._erasures[row.erased_by]
        return found is not None and _has_named(*found, row)

    def _read_eraser(self, seq: int) -> tuple[Event, ErasedPlaces | None] | None:
        rows = Event.objects.filter(thread_id=self.thread, seq=seq, type__in=ERASERS)
        row = rows.defer("payload").first()
        if row is None:
            return None
        event = log.to_recorded(row).event
        if isinstance(event, RecordsErased):
            return row, resolve_places(event.ranges)
        if isinstance(event, ValuesErased):
            return row, resolve_places((self.thread, each, each) for each in event.seqs)
        return row, None


def _has_named(eraser: Event, gone: ErasedPlaces | None, row: Event) -> bool:
    """Tell whether an eraser's event covers the row.

    A page deletion covers the page's own texts, an order the records of its ranges.
    """
    if eraser.type == PageDeleted.event_type:
        return row.page == eraser.page and row.type in PURGED
    if eraser.type == ThreadErased.event_type:
        return row.seq < eraser.seq
    if eraser.type == ValuesErased.event_type and row.type != KeySet.event_type:
        return False
    return gone is not None and gone.has_place(row.thread_id, row.seq)


@dataclass(slots=True)
class ErasedWalk:
    """Erased ranges and derivations of a thread's journal, collected by batches."""

    ranges: list[Range] = field(default_factory=list)
    derived: set[DerivationRow] = field(default_factory=set)

    def add(self, made: projections.ProjectedRows) -> None:
        self.derived.update(made.derivations)
        for each in made.erased:
            self.ranges += each.ranges
            gone = resolve_places(each.ranges)
            self.derived = {row for row in self.derived if not _is_erased(row, gone)}

    def finish(self, thread: Thread) -> str | None:
        """Compare with the stored rows; return the wrong kind of rows, or None."""
        spans = resolve_places(self.ranges).spans.get(thread.id, ())
        if _has_remains(thread, spans):
            return "payload"
        if _has_wrong_flags(thread, spans):
            return "slot_rows"
        return self._compare_derivations(thread)

    def _compare_derivations(self, thread: Thread) -> str | None:
        rows = Derivation.objects.filter(
            derived_thread=thread.id, derived_seq__lte=thread.head_seq
        )
        stored = {DerivationRow(*row) for row in rows.values_list(*_DERIVATION)}
        missing = self.derived - stored
        if stored <= self.derived and (not missing or _has_outlived(thread, missing)):
            return None
        moved = heads.get_seq(thread.id) != thread.head_seq
        return None if moved else "derivation_rows"


_DERIVATION = DerivationRow._fields


def _has_outlived(thread: Thread, rows: Collection[DerivationRow]) -> bool:
    """Tell whether a home thread kept what it learnt from records erased since."""
    places = {(row.thread_id, row.source_seq) for row in rows}
    gone = Event.objects.filter_places([*places]).filter(payload__isnull=True)
    return thread.home and gone.count() == len(places)


def _is_erased(row: DerivationRow, gone: ErasedPlaces) -> bool:
    made = gone.has_place(row.derived_thread, row.derived_seq)
    return made or gone.has_place(row.thread_id, row.source_seq)


def _has_remains(thread: Thread, spans: Spans) -> bool:
    """Tell whether the payload or text of an erased record still exists."""
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    levels = PageLevel.objects.filter(thread=thread, source=None)
    return any(
        sealed.filter(each).exists() or levels.filter(each).exists()
        for each in iter_conditions(spans)
    )


def _has_wrong_flags(thread: Thread, spans: Spans) -> bool:
    """Tell whether a slot is flagged as erased and is not, or the other way round."""
    slots = Slot.objects.filter(thread=thread)
    unsaid = slots.filter(erased=False)
    if any(unsaid.filter(each).exists() for each in iter_conditions(spans)):
        return True
    gone = resolve_places((thread.id, *span) for span in spans)
    flagged = slots.filter(erased=True, seq__lte=thread.head_seq)
    others = {
        seq
        for seq in flagged.values_list("seq", flat=True)
        if not gone.has_place(thread.id, seq)
    }
    if not others:
        return False
    # Leave out erasures that were ordered after the head that is verified.
    later = Event.objects.filter(thread=thread, erased_by__gt=thread.head_seq)
    return bool(others.difference(later.values_list("seq", flat=True)))
