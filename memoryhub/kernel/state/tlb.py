"""The TLB: the page-table entries a thread looked up last. Pure.

An LRU that is a plain dictionary in the order of touches. Nobody changes one that is
there: what is inserted goes into a copy, which at 512 entries takes a few microseconds.
Hits are only noted, and move entries all at once when somebody asks for the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from memoryhub.kernel.state.pages import Entry

#: Hits that are noted at most: each more lengthens what the next one copies.
_NOTED = 32
_NONE: dict[str, Entry] = {}


class Tlb(NamedTuple):
    """At most as many entries as the thread is set to; oldest touch goes first."""

    #: By page id, oldest first but for the hits that are only noted.
    held: dict[str, Entry] = _NONE
    hits: int = 0
    misses: int = 0
    #: Pages of those hits, newest last; some may be gone.
    noted: tuple[str, ...] = ()

    def find(self, page_id: str) -> Entry | None:
        """Return the entry, uncounted and untouched."""
        return self.held.get(page_id)

    def hit(self, page_id: str) -> Tlb:
        """Count a look-up that found its entry, which is now the newest."""
        held, hits, misses, noted = self
        after = Tlb(held, hits + 1, misses, (*noted, page_id))
        if len(noted) < _NOTED:
            return after
        return Tlb(after._in_order(), hits + 1, misses)

    def missed(self, entry: Entry | None, *, size: int) -> Tlb:
        """Count a look-up that had to read the row; None if there was none."""
        after = self._replace(misses=self.misses + 1)
        return after if entry is None else after.insert(entry, size=size)

    def insert(self, entry: Entry, *, size: int) -> Tlb:
        """Insert the entry as the newest, uncounted; the oldest leaves for it."""
        held = self._in_order()
        held.pop(entry.page_id, None)
        held[entry.page_id] = entry
        return self._of(held, size)

    def write(self, entry: Entry) -> Tlb:
        """Replace the entry that it holds; order stays."""
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

    def shrunk(self, size: int) -> Tlb:
        """Shrink to at most `size` entries."""
        return self if len(self.held) <= size else self._of(self._in_order(), size)

    def oldest_first(self) -> list[Entry]:
        """Return the entries in the order they would leave in."""
        return [*self._in_order().values()]

    def _of(self, held: dict[str, Entry], size: int) -> Tlb:
        """With the newest `size` of these, which are its own to keep."""
        while len(held) > size:
            del held[next(iter(held))]
        return Tlb(held, self.hits, self.misses)

    def _in_order(self) -> dict[str, Entry]:
        """A copy of its entries, all hits entered into the order."""
        held = self.held.copy()
        for page_id in self.noted:
            if (entry := held.pop(page_id, None)) is not None:
                held[page_id] = entry
        return held


def holding(entries: Iterable[Entry], *, hits: int, misses: int) -> Tlb:
    """Return a TLB that holds these, oldest first."""
    return Tlb({entry.page_id: entry for entry in entries}, hits, misses)
