"""The TLB: the page-table entries that a thread looked up last. Pure.

The LRU is a plain dictionary in the order of touches. The dictionary never changes: an
insertion makes a copy, which at 512 entries takes a few microseconds. Hits are only
noted, and the entries move all at once when the order is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from memoryhub.kernel.state.pages import PageEntry

#: Most noted hits: each further hit lengthens the tuple that the next hit copies.
_NOTED = 32
_NONE: dict[str, PageEntry] = {}


class Tlb(NamedTuple):
    """LRU of at most `tlb_entries` page-table entries; the oldest leaves first."""

    #: Entries by page id, oldest first, noted hits not yet moved.
    held: dict[str, PageEntry] = _NONE
    hits: int = 0
    misses: int = 0
    #: Pages of the noted hits, newest last; some may be gone.
    noted: tuple[str, ...] = ()

    def find(self, page_id: str) -> PageEntry | None:
        """Return the entry, uncounted and untouched."""
        return self.held.get(page_id)

    def record_hit(self, page_id: str) -> Tlb:
        """Count a look-up that found its entry, and make the entry the newest."""
        held, hits, misses, noted = self
        after = Tlb(held, hits + 1, misses, (*noted, page_id))
        if len(noted) < _NOTED:
            return after
        return Tlb(after._build_ordered(), hits + 1, misses)

    def record_miss(self, entry: PageEntry | None, *, size: int) -> Tlb:
        """Count a look-up that read the row; `entry` is None if there is no row."""
        after = self._replace(misses=self.misses + 1)
        return after if entry is None else after.insert(entry, size=size)

    def insert(self, entry: PageEntry, *, size: int) -> Tlb:
        """Insert an entry as the newest, uncounted; the oldest leaves if need be."""
        held = self._build_ordered()
        held.pop(entry.page_id, None)
        held[entry.page_id] = entry
        return self._keep_newest(held, size)

    def write(self, entry: PageEntry) -> Tlb:
        """Replace a page's entry if the TLB holds the page; the order stays."""
        if entry.page_id not in self.held:
            return self
        return self._replace(held={**self.held, entry.page_id: entry})

    def drop(self, page_id: str) -> Tlb:
        if page_id not in self.held:
            return self
        held = self.held.copy()
        del held[page_id]
        return self._replace(held=held)

    def flush(self) -> Tlb:
        return Tlb(hits=self.hits, misses=self.misses)

    def shrink(self, size: int) -> Tlb:
        """Shrink to at most `size` entries."""
        return (
            self
            if len(self.held) <= size
            else self._keep_newest(self._build_ordered(), size)
        )

    def list_oldest_first(self) -> list[PageEntry]:
        """List the entries in the order of their eviction."""
        return [*self._build_ordered().values()]

    def _keep_newest(self, held: dict[str, PageEntry], size: int) -> Tlb:
        """Return a copy with the newest `size` of `held`, which the call changes."""
        while len(held) > size:
            del held[next(iter(held))]
        return Tlb(held, self.hits, self.misses)

    def _build_ordered(self) -> dict[str, PageEntry]:
        """Build a copy of the entries with all noted hits moved to their order."""
        held = self.held.copy()
        for page_id in self.noted:
            if (entry := held.pop(page_id, None)) is not None:
                held[page_id] = entry
        return held


def build_tlb(entries: Iterable[PageEntry], *, hits: int, misses: int) -> Tlb:
    """Build a TLB from entries, oldest first."""
    return Tlb({entry.page_id: entry for entry in entries}, hits, misses)
