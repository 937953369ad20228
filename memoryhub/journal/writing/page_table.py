"""The page table as the writer asks it: rows, and those about to be written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from memoryhub.journal.rows import due_rows
from memoryhub.journal.rows.knowledge import assertion_rows
from memoryhub.journal.rows.page_rows import TEXTS, entry_of, with_levels
from memoryhub.journal.rows.projections import Rows
from memoryhub.journal.rows.rows import LevelRow
from memoryhub.journal.rows.spans import conditions as span_conditions
from memoryhub.journal.writing.inherited_pages import all_inherited, was_deleted
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.erased import named, stripped
from memoryhub.kernel.state.pages import FULL, Entry, Location, slot_page_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.assertions import Assertion
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Slot
from memoryhub.vault.keys import blind_index
from memoryhub.vault.keys.keys import SubjectKeys

#: Things that one statement names at most.
CHUNK = 200


class PageTable:
    """One thread's page table, in the transaction at hand. Never writes.

    A look-up costs two queries, and in a fork some more for each ancestor.
    """

    def __init__(
        self, state: ThreadState, rows: Rows, *, key: SubjectKeys | None = None
    ) -> None:
        self.state = state
        self._key = key
        self.pending = rows.pages
        self._dues = rows.due.dues
        self._derivations = rows.derivations

    def entry(self, page_id: str) -> Entry | None:
        # A model may ask for any text at all.
        if not names.valid(page_id):
            return None
        return self.entries([page_id]).get(page_id)

    def digest(self, text: str) -> str:
        # Only what writes comes to a call.
        assert self._key is not None
        return blind_index.lookup(self._key, "call", text).hex()

    def deleted(self, page_id: str) -> bool:
        if not names.valid(page_id):
            return False
        key = (self.state.id, page_id)
        if key in self.pending.entries:
            return self.pending.entries[key] is None
        row = Page.objects.filter(thread_id=self.state.id, page_id=page_id).first()
        if row is not None:
            return row.deleted_seq is not None
        return was_deleted(self.state.lineage, page_id)

    def entries(self, page_ids: Collection[str]) -> dict[str, Entry]:
        """Return the live ones of these pages.

        Two queries, and more only for a fork's ancestors.
        """
        thread, wanted = self.state.id, [*page_ids]
        stored = Page.objects.filter(thread_id=thread, page_id__in=wanted)
        rows = {row.page_id: row for row in stored}
        made: dict[str, list[PageLevel | LevelRow]] = {}
        # A fork may have levels of a page that it has no row of.
        held_here = wanted if self.state.lineage else rows
        for level in PageLevel.objects.filter(thread_id=thread, page_id__in=held_here):
            made.setdefault(level.page_id, []).append(level)
        bases = self._bases(rows, wanted)
        found = {}
        for page_id, base in bases.items():
            if base is not None:
                pending = self.pending.levels_of.get((thread, page_id), ())
                levels = [*made.get(page_id, ()), *pending]
                found[page_id] = with_levels(base, levels)
        return found

    def _bases(
        self, rows: Mapping[str, Page], wanted: Iterable[str]
    ) -> dict[str, Entry | None]:
        """Pages without the levels that the thread itself has made."""
        thread, bases = self.state.id, {}
        above: list[str] = []
        for page_id in wanted:
            if (thread, page_id) in self.pending.entries:
                bases[page_id] = self.pending.entries[thread, page_id]
            elif asks_above(rows.get(page_id)):
                above.append(page_id)
            else:
                bases[page_id] = entry_of_row(rows[page_id], None)
        before = all_inherited(self.state.lineage, above)
        for page_id in above:
            bases[page_id] = entry_of_row(rows.get(page_id), before.get(page_id))
        return bases

    def count(self) -> int:
        """Return how many live pages the thread has rows of. One query."""
        rows = Page.objects.filter(thread_id=self.state.id, deleted_seq=None)
        live = {*rows.values_list("page_id", flat=True)}
        for (thread, page_id), entry in self.pending.entries.items():
            if thread == self.state.id:
                (live.discard if entry is None else live.add)(page_id)
        return len(live)

    def sources(self, place: Location) -> list[Location]:
        """Return what the text there was made of. One query."""
        derived = (place.thread, place.seq)
        rows = Derivation.objects.filter(
            derived_thread=place.thread, derived_seq=place.seq
        )
        found = {*rows.values_list("thread_id", "source_seq")}
        found |= {
            (row.thread_id, row.source_seq)
            for row in self._derivations
            if (row.derived_thread, row.derived_seq) == derived
        }
        return [Location(thread, seq, FULL) for thread, seq in sorted(found)]

    def within(self, ranges: Sequence[Range]) -> list[Entry]:
        """Return the live pages of which a text lies there.

        No query for each of them.
        """
        gone, ids = named(ranges), set[str]()
        for thread, spans in gone.spans.items():
            for condition in span_conditions(spans):
                events = Event.objects.filter(
                    condition, thread_id=thread, type__in=TEXTS
                )
                ids |= {str(each) for each in events.values_list("page", flat=True)}
                slots = Slot.objects.filter(condition, thread_id=thread)
                indexes = slots.values_list("index", flat=True)
                ids |= {slot_page_id(index) for index in indexes}
        found: dict[str, Entry] = {}
        wanted = sorted(ids)
        for start in range(0, len(wanted), CHUNK):
            found |= self.entries(wanted[start : start + CHUNK])
        return [each for each in found.values() if stripped(each, gone) != each]

    def kept(self, ranges: Sequence[Range]) -> bool:
        spans = named(ranges).spans.get(self.state.id, ())
        own = Event.objects.filter(thread_id=self.state.id, payload__isnull=False)
        return any(
            own.filter(condition).exists() for condition in span_conditions(spans)
        )

    def asserted(
        self, timelines: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        """Return how many assertions each has; a query each, in an index alone."""
        assert self._key is not None
        rows = Assertion.objects.filter(thread_id=self.state.id)
        found = {}
        for each in timelines:
            digest = assertion_rows.timeline(self._key, *each)
            found[each] = rows.filter(timeline=digest).count()
        return found

    def dues(self, seqs: Collection[int]) -> dict[int, datetime]:
        """Return when these values are due, of those that are. One query."""
        stored = due_rows.stored_dues(self.state.id, seqs)
        dues = self._dues.over(stored)
        return {
            seq: dues[self.state.id, seq]
            for seq in seqs
            if (self.state.id, seq) in dues
        }


def asks_above(row: Page | None) -> bool:
    """Return whether a row is not all: its page is an ancestor's, or has none."""
    return row is None or (row.full_thread is not None and row.deleted_seq is None)


def entry_of_row(row: Page | None, before: Entry | None) -> Entry | None:
    """Return a page as its row has it, without levels that the thread itself made.

    A fork that changed a page it inherits has a row of it, and no rows of its levels:
    `before` is the page as it was inherited, if the row `asks_above`.
    """
    if row is None:
        return before
    if row.deleted_seq is not None:
        return None
    entry = entry_of(row, ())
    if row.full_thread is None:
        return entry
    assert before is not None
    return entry._replace(levels=before.levels)
