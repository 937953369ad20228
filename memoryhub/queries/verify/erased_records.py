"""What was erased of a thread, as its journal says, compared with the rows.

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
from memoryhub.journal.rows.spans import conditions
from memoryhub.kernel.memory.key_events import KeySet, ValuesErased
from memoryhub.kernel.state.erase_events import Range, RecordsErased, ThreadErased
from memoryhub.kernel.state.erased import Erased, Spans, named
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
    """One thread's events that took payloads: each is read once."""

    def __init__(self, thread: UUID) -> None:
        self.thread = thread
        self._erasures: dict[int, tuple[Event, Erased | None] | None] = {}

    def lawful(self, row: Event) -> bool:
        """Return whether a lawful event has named this record."""
        assert row.erased_by is not None
        if row.erased_by not in self._erasures:
            self._erasures[row.erased_by] = self._read(row.erased_by)
        found = self._erasures[row.erased_by]
        return found is not None and _names(*found, row)

    def _read(self, seq: int) -> tuple[Event, Erased | None] | None:
        rows = Event.objects.filter(thread_id=self.thread, seq=seq, type__in=ERASERS)
        row = rows.defer("payload").first()
        if row is None:
            return None
        event = log.recorded(row).event
        if isinstance(event, RecordsErased):
            return row, named(event.ranges)
        if isinstance(event, ValuesErased):
            return row, named((self.thread, each, each) for each in event.seqs)
        return row, None


def _names(eraser: Event, gone: Erased | None, row: Event) -> bool:
    """A page takes nothing but its own texts along, an order what its ranges name."""
    if eraser.type == PageDeleted.event_type:
        return row.page == eraser.page and row.type in PURGED
    if eraser.type == ThreadErased.event_type:
        return row.seq < eraser.seq
    if eraser.type == ValuesErased.event_type and row.type != KeySet.event_type:
        return False
    return gone is not None and gone.holds(row.thread_id, row.seq)


@dataclass(slots=True)
class ErasedWalk:
    """What one thread's journal leads to, batch by batch."""

    ranges: list[Range] = field(default_factory=list)
    derived: set[DerivationRow] = field(default_factory=set)

    def add(self, made: projections.Rows) -> None:
        self.derived.update(made.derivations)
        for each in made.erased:
            self.ranges += each.ranges
            gone = named(each.ranges)
            self.derived = {row for row in self.derived if not _is_erased(row, gone)}

    def finish(self, thread: Thread) -> str | None:
        """Return what is wrong with the rows, or None."""
        spans = named(self.ranges).spans.get(thread.id, ())
        if _kept(thread, spans):
            return "payload"
        if _flagged(thread, spans):
            return "slot_rows"
        return self._derivations(thread)

    def _derivations(self, thread: Thread) -> str | None:
        rows = Derivation.objects.filter(
            derived_thread=thread.id, derived_seq__lte=thread.head_seq
        )
        stored = {DerivationRow(*row) for row in rows.values_list(*_DERIVATION)}
        missing = self.derived - stored
        if stored <= self.derived and (not missing or _outlives(thread, missing)):
            return None
        moved = heads.get_seq(thread.id) != thread.head_seq
        return None if moved else "derivation_rows"


_DERIVATION = DerivationRow._fields


def _outlives(thread: Thread, rows: Collection[DerivationRow]) -> bool:
    """Whether a home thread kept what it had learnt from records that grew old."""
    places = {(row.thread_id, row.source_seq) for row in rows}
    gone = Event.objects.at_places([*places]).filter(payload__isnull=True)
    return thread.home and gone.count() == len(places)


def _is_erased(row: DerivationRow, gone: Erased) -> bool:
    made = gone.holds(row.derived_thread, row.derived_seq)
    return made or gone.holds(row.thread_id, row.source_seq)


def _kept(thread: Thread, spans: Spans) -> bool:
    """Whether something that was erased is still there."""
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    levels = PageLevel.objects.filter(thread=thread, source=None)
    return any(
        sealed.filter(each).exists() or levels.filter(each).exists()
        for each in conditions(spans)
    )


def _flagged(thread: Thread, spans: Spans) -> bool:
    """Whether slots say that they are erased and are not, or the other way round."""
    slots = Slot.objects.filter(thread=thread)
    unsaid = slots.filter(erased=False)
    if any(unsaid.filter(each).exists() for each in conditions(spans)):
        return True
    gone = named((thread.id, *span) for span in spans)
    flagged = slots.filter(erased=True, seq__lte=thread.head_seq)
    others = {
        seq
        for seq in flagged.values_list("seq", flat=True)
        if not gone.holds(thread.id, seq)
    }
    if not others:
        return False
    # What was ordered since the head that is looked at is none of its business.
    later = Event.objects.filter(thread=thread, erased_by__gt=thread.head_seq)
    return bool(others.difference(later.values_list("seq", flat=True)))
