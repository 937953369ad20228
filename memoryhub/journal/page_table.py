"""The page table as the writer asks it: rows, and those about to be written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from memoryhub.journal import log, memory_rows
from memoryhub.journal.page_rows import entry_of, with_levels
from memoryhub.journal.projections import Rows
from memoryhub.journal.rows import LevelRow
from memoryhub.kernel import entries, names
from memoryhub.kernel.events import SlotAppended
from memoryhub.kernel.page_events import (
    PageCompressed,
    PageCreated,
    PageDeleted,
    PageUpdated,
)
from memoryhub.kernel.pages import Entry, LevelEntry, Location, slot_page_id
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state import Segment, ThreadState
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Slot

#: What a page is follows from these of its events.
SHAPING = (PageCreated, PageUpdated, PageCompressed, PageDeleted)
_SHAPING_TYPES = tuple(event.event_type for event in SHAPING)


class PageTable:
    """One thread's page table, in the transaction at hand. Never writes.

    A look-up costs two queries, and in a fork two more for each ancestor.
    """

    def __init__(self, state: ThreadState, rows: Rows) -> None:
        self.state = state
        self.pending = rows.pages
        self._dues = rows.memory.dues

    def entry(self, page_id: str) -> Entry | None:
        # A model may ask for any text at all.
        if not names.valid(page_id):
            return None
        return self.entries([page_id]).get(page_id)

    def deleted(self, page_id: str) -> bool:
        if not names.valid(page_id):
            return False
        key = (self.state.id, page_id)
        if key in self.pending.entries:
            return self.pending.entries[key] is None
        row = self._row(page_id)
        if row is not None:
            return row.deleted_seq is not None
        return was_deleted(self.state.lineage, page_id)

    def entries(self, page_ids: Collection[str]) -> dict[str, Entry]:
        """The live ones of these. Two queries, and more only for a fork's ancestors."""
        thread, wanted = self.state.id, [*page_ids]
        stored = Page.objects.filter(thread_id=thread, page_id__in=wanted)
        rows = {row.page_id: row for row in stored}
        made: dict[str, list[PageLevel | LevelRow]] = {}
        # A fork may have levels of a page that it has no row of.
        known_here = wanted if self.state.lineage else rows
        for level in PageLevel.objects.filter(thread_id=thread, page_id__in=known_here):
            made.setdefault(level.page_id, []).append(level)
        found = {}
        for page_id in wanted:
            key = (thread, page_id)
            base = (
                self.pending.entries[key]
                if key in self.pending.entries
                else known(rows.get(page_id), self.state.lineage, page_id)
            )
            if base is not None:
                levels = [*made.get(page_id, ()), *self.pending.levels_of.get(key, ())]
                found[page_id] = with_levels(base, levels)
        return found

    def dues(self, seqs: Collection[int]) -> dict[int, datetime]:
        """When those of these values are due that are. One query."""
        stored = memory_rows.stored_dues(self.state.id, seqs)
        known = self._dues.over(stored)
        return {
            seq: known[self.state.id, seq]
            for seq in seqs
            if (self.state.id, seq) in known
        }

    def _row(self, page_id: str) -> Page | None:
        return Page.objects.filter(thread_id=self.state.id, page_id=page_id).first()


def known(row: Page | None, lineage: Sequence[Segment], page_id: str) -> Entry | None:
    """A page as its row says, without levels that the thread itself has made.

    A fork that changed a page it inherits has a row of it, and no rows of its levels.
    """
    if row is None:
        return inherited(lineage, page_id)
    if row.deleted_seq is not None:
        return None
    entry = entry_of(row, ())
    if row.full_thread is None:
        return entry
    before = inherited(lineage, page_id)
    assert before is not None
    return entry._replace(levels=before.levels)


def inherited(lineage: Sequence[Segment], page_id: str) -> Entry | None:
    """A page as the ancestors left it, each as of where it was forked.

    Folded from its events, since an ancestor's rows have gone on meanwhile.
    """
    entry: Entry | None = None
    #: The clock of a thread goes on from those of its ancestors.
    began = 0
    for part in lineage:
        entry = _slot_entry(part, page_id, began=began) or entry
        for each in _shaping_events(part.thread, page_id, up_to=part.up_to_seq):
            entry = _shaped(entry, each, thread=part.thread, began=began)
        began += part.up_to_seq
    return entry


def was_deleted(lineage: Sequence[Segment], page_id: str) -> bool:
    """Whether there was such a page there once. One query a thread."""
    return any(
        isinstance(each.event, PageDeleted)
        for part in lineage
        for each in _shaping_events(part.thread, page_id, up_to=part.up_to_seq)
    )


def _shaped(
    entry: Entry | None, recorded: Recorded, *, thread: UUID, began: int
) -> Entry | None:
    event, seq = recorded.event, recorded.seq
    if isinstance(event, PageCreated):
        return entries.created_entry(
            event, thread=thread, seq=seq, clock=began + seq, turn=event.turn
        )
    if entry is None or isinstance(event, PageDeleted):
        return None
    if isinstance(event, PageUpdated):
        return entries.updated_entry(entry, event, thread=thread, seq=seq)
    assert isinstance(event, PageCompressed)
    return entries.compressed_entry(entry, event, thread=thread, seq=seq)


def _shaping_events(thread: UUID, page_id: str, *, up_to: int) -> Iterator[Recorded]:
    rows = Event.objects.filter(
        thread_id=thread, page=page_id, type__in=_SHAPING_TYPES, seq__lte=up_to
    )
    for row in rows.defer("payload").order_by("seq"):
        yield log.recorded(row)


def _slot_entry(part: Segment, page_id: str, *, began: int) -> Entry | None:
    """The entry a slot's page began with, if the slot is of this ancestor."""
    kind, _, digits = page_id.partition("-")
    if kind != "slot" or not digits.isdecimal():
        return None
    index = int(digits)
    if page_id != slot_page_id(index) or not part.first <= index < part.end:
        return None
    row = Slot.objects.get(thread_id=part.thread, index=index)
    stored = Event.objects.defer("payload").get(thread_id=part.thread, seq=row.seq)
    event = log.recorded(stored).event
    assert isinstance(event, SlotAppended)
    if event.page is None:
        return None
    place = Location(part.thread, row.seq, 0)
    return Entry(
        page_id=page_id,
        version=1,
        type=event.page.type,
        modality=event.page.modality,
        importance=event.page.importance,
        created_seq=began + row.seq,
        created_turn=row.turn,
        levels=(LevelEntry(place, event.tokens, event.page.cost), None, None, None),
        role=event.role,
        slot=index,
    )
