"""The TLB: the page-table entries a thread looked up last. Pure, persistent.

An LRU that a fold can branch off for nothing: a map, and a queue of touches in which
only the newest touch of a page counts. Hits are only noted, and enter map and queue all
at once when somebody asks for the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rpds import HashTrieMap, List, Queue

from memoryhub.kernel.pages import Entry


class Held(NamedTuple):
    entry: Entry
    #: Number of its newest touch.
    touch: int


class Tlb(NamedTuple):
    """At most as many entries as the thread is set to; oldest touch goes first."""

    held: HashTrieMap[str, Held] = HashTrieMap()
    #: (page id, touch), oldest first; stale are those that `held` contradicts.
    touches: Queue[tuple[str, int]] = Queue()
    queued: int = 0
    touched: int = 0
    hits: int = 0
    misses: int = 0
    #: Pages of the hits that are only noted so far, newest first; some may be gone.
    noted: List[str] = List()
    pending: int = 0

    def find(self, page_id: str) -> Entry | None:
        """The entry, uncounted and untouched."""
        held = self.held.get(page_id)
        return None if held is None else held[0]

    def hit(self, page_id: str) -> Tlb:
        """A look-up that found its entry, which is now the newest."""
        held, touches, queued, touched, hits, misses, noted, pending = self
        after = Tlb(
            held,
            touches,
            queued,
            touched,
            hits + 1,
            misses,
            noted.push_front(page_id),
            pending + 1,
        )
        return after if pending < _slack(len(held)) else after.settled()

    def settled(self) -> Tlb:
        """With all hits entered into the order."""
        if not self.pending:
            return self
        held, touches, queued, touched = self[:4]
        for page_id in reversed(dict.fromkeys(self.noted)):
            if (found := held.get(page_id)) is not None:
                touched += 1
                held = held.insert(page_id, Held(found.entry, touched))
                touches, queued = touches.enqueue((page_id, touched)), queued + 1
        after = Tlb(held, touches, queued, touched, self.hits, self.misses)
        return after if queued <= _slack(len(held)) else after.compact()

    def missed(self, entry: Entry | None, *, size: int) -> Tlb:
        """A look-up that had to read the row; None when there was none."""
        after = self._replace(misses=self.misses + 1)
        return after if entry is None else after.insert(entry, size=size)

    def insert(self, entry: Entry, *, size: int) -> Tlb:
        """With the entry as the newest, uncounted; the oldest leaves for it."""
        if size == 0:
            return self
        now = self.settled()
        touched = now.touched + 1
        after = now._replace(
            held=now.held.insert(entry.page_id, Held(entry, touched)),
            touches=now.touches.enqueue((entry.page_id, touched)),
            queued=now.queued + 1,
            touched=touched,
        )
        return after.shrunk(size)

    def write(self, entry: Entry) -> Tlb:
        """With the entry in place of the one it holds; order stays."""
        held = self.held.get(entry.page_id)
        if held is None:
            return self
        renewed = self.held.insert(entry.page_id, Held(entry, held.touch))
        return self._replace(held=renewed)

    def drop(self, page_id: str) -> Tlb:
        if page_id not in self.held:
            return self
        return self._replace(held=self.held.remove(page_id))

    def flush(self) -> Tlb:
        return Tlb(hits=self.hits, misses=self.misses)

    def shrunk(self, size: int) -> Tlb:
        """Of at most `size` entries."""
        now = self.settled()
        held, touches, queued = now.held, now.touches, now.queued
        while len(held) > size:
            page_id, touch = touches.peek()  # type: ignore[operator]  # rpds' stub is wrong
            touches, queued = touches.dequeue(), queued - 1  # type: ignore[call-arg]  # the same
            newest = held.get(page_id)
            if newest is not None and newest.touch == touch:
                held = held.remove(page_id)
        after = now._replace(held=held, touches=touches, queued=queued)
        return after if queued <= _slack(len(held)) else after.compact()

    def oldest_first(self) -> list[Entry]:
        """Its entries in the order they would leave in."""
        ordered = sorted(self.settled().held.values(), key=lambda held: held.touch)
        return [held.entry for held in ordered]

    def compact(self) -> Tlb:
        """Without the stale touches: what many hits leave behind in the queue."""
        order = sorted((held.touch, page_id) for page_id, held in self.held.items())
        touches: Queue[tuple[str, int]] = Queue((name, touch) for touch, name in order)
        return self._replace(touches=touches, queued=len(order))


def _slack(entries: int) -> int:
    """Touches that may queue up; compacting costs a sort, and is rare by this."""
    return 4 * entries + 64


def holding(entries: Iterable[Entry], *, hits: int, misses: int) -> Tlb:
    """A TLB that holds these, oldest first."""
    held = {e.page_id: Held(e, n) for n, e in enumerate(entries, start=1)}
    tlb = Tlb(held=HashTrieMap(held), touched=len(held), hits=hits, misses=misses)
    return tlb.compact()
