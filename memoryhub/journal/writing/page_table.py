"""The page table for the writer: stored rows, and rows about to be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from memoryhub.journal.rows import due_rows, erased_rows
from memoryhub.journal.rows.knowledge import assertion_rows
from memoryhub.journal.rows.page_rows import TEXTS, add_levels, build_entry
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.rows.rows import LevelRow
from memoryhub.journal.rows.spans import iter_conditions as span_conditions
from memoryhub.journal.writing.inherited_pages import find_all_inherited, has_deleted
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.erased import resolve_places, strip_entry
from memoryhub.kernel.state.pages import FULL, Location, PageEntry, build_slot_page_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.assertions import Assertion
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.slots import Slot
from memoryhub.vault.keys import blind_index
from memoryhub.vault.keys.keys import SubjectKeys

#: Page ids that one statement names, at most.
CHUNK = 200


class StoredPageTable:
    """One thread's page table, in the open transaction. Never writes.

    A look-up costs two queries, and in a fork some more for each ancestor.
    """

    def __init__(
        self, state: ThreadState, rows: ProjectedRows, *, key: SubjectKeys | None = None
    ) -> None:
        self.state = state
        self._key = key
        self.pending = rows.pages
        self._slots, self._struck = rows.slots, rows.struck
        self._dues = rows.due.dues
        self._derivations = rows.derivations

    def find_entry(self, page_id: str) -> PageEntry | None:
        # A model may ask for any text at all.
        if not names.is_valid(page_id):
            return None
        return self.list_entries([page_id]).get(page_id)

    def digest(self, text: str) -> str:
        # Only a command with an opened key digests a tool call.
        assert self._key is not None
        return blind_index.digest_lookup(self._key, "call", text).hex()

    def is_deleted(self, page_id: str) -> bool:
        if not names.is_valid(page_id):
            return False
        key = (self.state.id, page_id)
        if key in self.pending.entries:
            return self.pending.entries[key] is None
        row = Page.objects.filter(thread_id=self.state.id, page_id=page_id).first()
        if row is not None:
            return row.deleted_seq is not None
        return has_deleted(self.state.lineage, page_id)

    def find_named(self, name: str) -> tuple[str, bool] | None:
        thread = self.state.id
        stored = Page.objects.filter(thread_id=thread, name=name)
        ended: dict[str, int | None] = {row.page_id: row.deleted_seq for row in stored}
        for row in (*self.pending.fresh, *self.pending.changed.values()):
            if row.thread_id == thread:
                ended.pop(row.page_id, None)
                if row.name == name:
                    ended[row.page_id] = row.deleted_seq
        found = [(page_id, seq is None) for page_id, seq in ended.items()]
        return max(found, key=lambda each: each[1], default=None)

    def list_entries(self, page_ids: Collection[str]) -> dict[str, PageEntry]:
        """Return the entries of the live pages among these.

        Two queries, and more only for a fork's ancestors.
        """
        thread, wanted = self.state.id, [*page_ids]
        stored = Page.objects.filter(thread_id=thread, page_id__in=wanted)
        rows = {row.page_id: row for row in stored}
        made: dict[str, list[PageLevel | LevelRow]] = {}
        # A fork may have levels of a page without a row of it.
        held_here = wanted if self.state.lineage else rows
        for level in PageLevel.objects.filter(thread_id=thread, page_id__in=held_here):
            made.setdefault(level.page_id, []).append(level)
        bases = self._list_bases(rows, wanted)
        found = {}
        for page_id, base in bases.items():
            if base is not None:
                pending = self.pending.levels_of.get((thread, page_id), ())
                levels = [*made.get(page_id, ()), *pending]
                found[page_id] = add_levels(base, levels)
        return found

    def _list_bases(
        self, rows: Mapping[str, Page], wanted: Iterable[str]
    ) -> dict[str, PageEntry | None]:
        """Return pages without the levels that the thread itself has made."""
        thread, bases = self.state.id, {}
        above: list[str] = []
        for page_id in wanted:
            if (thread, page_id) in self.pending.entries:
                bases[page_id] = self.pending.entries[thread, page_id]
            elif needs_ancestors(rows.get(page_id)):
                above.append(page_id)
            else:
                bases[page_id] = build_row_entry(rows[page_id], None)
        before = find_all_inherited(self.state.lineage, above)
        for page_id in above:
            bases[page_id] = build_row_entry(rows.get(page_id), before.get(page_id))
        return bases

    def count_pages(self) -> int:
        """Return how many live pages the thread has rows of. One query."""
        rows = Page.objects.filter(thread_id=self.state.id, deleted_seq=None)
        live = {*rows.values_list("page_id", flat=True)}
        for (thread, page_id), entry in self.pending.entries.items():
            if thread == self.state.id:
                (live.discard if entry is None else live.add)(page_id)
        return len(live)

    def list_sources(self, place: Location) -> list[Location]:
        """Return the places from which the text at `place` was made. One query."""
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

    def list_within(self, ranges: Sequence[Range]) -> list[PageEntry]:
        """Return the live pages that have a text in these ranges.

        Looks up 200 pages at a time.
        """
        gone, ids = resolve_places(ranges), set[str]()
        for thread, spans in gone.spans.items():
            for condition in span_conditions(spans):
                events = Event.objects.filter(
                    condition, thread_id=thread, type__in=TEXTS
                )
                ids |= {str(each) for each in events.values_list("page", flat=True)}
                slots = Slot.objects.filter(condition, thread_id=thread)
                indexes = slots.values_list("index", flat=True)
                ids |= {build_slot_page_id(index) for index in indexes}
        found: dict[str, PageEntry] = {}
        wanted = sorted(ids)
        for start in range(0, len(wanted), CHUNK):
            found |= self.list_entries(wanted[start : start + CHUNK])
        return [each for each in found.values() if strip_entry(each, gone) != each]

    def list_unstruck(self, indexes: Collection[int]) -> dict[int, int]:
        """Return the seqs of the thread's own slots that are not struck, by index.

        One query.
        """
        thread = self.state.id
        own = Slot.objects.filter(thread_id=thread, index__in=[*indexes])
        found = dict(own.filter(struck_seq=None).values_list("index", "seq"))
        pending = (row for row in self._slots if row.thread_id == thread)
        found |= {row.index: row.seq for row in pending if row.index in indexes}
        return {
            index: seq
            for index, seq in found.items()
            if (thread, index) not in self._struck
        }

    def has_payload(self, ranges: Sequence[Range]) -> bool:
        places = resolve_places(ranges).spans
        own = Event.objects.filter(thread_id=self.state.id, payload__isnull=False)
        spans = span_conditions(places.get(self.state.id, ()))
        # A fork that has changed an inherited page keeps rows of the inherited text.
        return any(own.filter(condition).exists() for condition in spans) or any(
            levels.exists()
            for home, spans in places.items()
            if home != self.state.id
            for levels in erased_rows.iter_levels(self.state.id, home, spans)
        )

    def count_fullest(self, timelines: Iterable[tuple[str, str]]) -> int:
        """Count the fullest timeline's assertions; an index-only query each."""
        key = self._key
        assert key is not None
        digest = assertion_rows.digest_timeline
        fresh = Counter(digest(key, *each) for each in timelines)
        rows = Assertion.objects.filter(thread_id=self.state.id)
        return max(rows.filter(timeline=each).count() + n for each, n in fresh.items())

    def list_dues(self, seqs: Collection[int]) -> dict[int, datetime]:
        """Return the due times of these values, for those that are due. One query."""
        stored = due_rows.list_stored_dues(self.state.id, seqs)
        dues = self._dues.merge_stored(stored)
        return {
            seq: dues[self.state.id, seq]
            for seq in seqs
            if (self.state.id, seq) in dues
        }


def needs_ancestors(row: Page | None) -> bool:
    """Return whether a page's entry needs its ancestors.

    Without a row, or with a row whose text is an ancestor's.
    """
    return row is None or (row.full_thread is not None and row.deleted_seq is None)


def build_row_entry(row: Page | None, before: PageEntry | None) -> PageEntry | None:
    """Return a page's entry from its row, without levels that the thread itself made.

    A fork that changed an inherited page has a row of it, but no rows of its levels:
    `before` is the inherited page, if the row `needs_ancestors`.
    """
    if row is None:
        return before
    if row.deleted_seq is not None:
        return None
    entry = build_entry(row, ())
    if row.full_thread is None:
        return entry
    assert before is not None
    return entry._replace(levels=before.levels)
