"""Miss-ratio curves of the TLB: misses by size, over recorded look-ups. Pure.

Exact: at the configured size the curve of an LRU equals the recorded misses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from memoryhub.kernel.paging.paging_trace import (
    ABSENT,
    DROP,
    FLUSH,
    LOOK,
    MAKE,
    TlbStep,
)


class LruStack:
    """Pages by their last touch, newest on top; a dropped page leaves a hole.

    An LRU of any size holds the pages of as many places from the top. A Fenwick tree
    counts the places, so that a touch takes logarithmic time (Bennett, Kruskal 1975).
    """

    def __init__(self, room: int) -> None:
        self._room, self._next = room, 0
        self.clear()

    def clear(self) -> None:
        self._tree = [0] * (self._room + 1)
        self._places: dict[str, int] = {}
        self._holes: list[int] = []
        self._count = 0

    def touch(self, page_id: str) -> int:
        """Put the page on top; return the depth where it was, 0 for nowhere.

        The highest hole above the page is filled, and the page leaves one behind.
        """
        at = self._places.get(page_id)
        depth = 0 if at is None else self._count - self._sum(at)
        if self._holes and -self._holes[0] > (-1 if at is None else at):
            self._add(-heappop(self._holes), -1)
            if at is not None:
                heappush(self._holes, -at)
        elif at is not None:
            self._add(at, -1)
        self._places[page_id] = self._next
        self._add(self._next, 1)
        self._next += 1
        return depth

    def drop(self, page_id: str) -> None:
        if (at := self._places.pop(page_id, None)) is not None:
            heappush(self._holes, -at)

    def _add(self, place: int, number: int) -> None:
        self._count += number
        place += 1
        while place <= self._room:
            self._tree[place] += number
            place += place & -place

    def _sum(self, place: int) -> int:
        """Count the places below this one."""
        total = 0
        while place:
            total += self._tree[place]
            place -= place & -place
        return total


def count_depths(held: Sequence[str], steps: Sequence[TlbStep]) -> Counter[int]:
    """Count look-ups by the depth of their page, 0 for look-ups that miss at any size.

    `held` are the pages that the TLB held before, oldest first.
    """
    stack = LruStack(len(held) + len(steps))
    for page_id in held:
        stack.touch(page_id)
    depths: Counter[int] = Counter()
    for kind, page_id in steps:
        if kind in (LOOK, MAKE):
            depth = stack.touch(page_id)
            depths[depth] += kind == LOOK
        elif kind == ABSENT:
            depths[0] += 1
        elif kind == DROP:
            stack.drop(page_id)
        else:
            stack.clear()
    return depths


def count_lru_misses(depths: Counter[int], size: int) -> int:
    """Return the misses of an LRU of this size."""
    return sum(n for depth, n in depths.items() if depth > size or not depth)


def count_sieve_misses(held: Sequence[str], steps: Iterable[TlbStep], size: int) -> int:
    """Return the misses of a TLB of this size by SIEVE (Zhang and others, 2024)."""
    queue = [*held[-size:]] if size else []
    places = {page_id: at for at, page_id in enumerate(queue)}
    visited, hand, misses = set[str](), 0, 0
    for kind, page_id in steps:
        if kind in (DROP, ABSENT):
            misses += kind == ABSENT
            places.pop(page_id, None)
            visited.discard(page_id)
        elif kind == FLUSH:
            queue, places, visited, hand = [], {}, set(), 0
        elif page_id in places:
            visited.add(page_id)
        else:
            misses += kind == LOOK
            while size and len(places) >= size:
                if hand == len(queue):
                    # The round is over: leave the gaps of evicted pages behind.
                    queue = [p for at, p in enumerate(queue) if places.get(p) == at]
                    places = {p: at for at, p in enumerate(queue)}
                    hand = 0
                victim, hand = queue[hand], hand + 1
                if places.get(victim) == hand - 1:
                    if victim not in visited:
                        del places[victim]
                    visited.discard(victim)
            if size:
                places[page_id] = len(queue)
                queue.append(page_id)
    return misses


def count_least_misses(
    held: Sequence[str], steps: Sequence[TlbStep], sizes: Iterable[int]
) -> list[int]:
    """Return the fewest misses that any policy could have for each size (Bélády).

    The page goes that is looked up last; a page that is never looked up again, or only
    after its drop or a flush, is not held at all.
    """
    ahead, uses = dict[str, float](), list[float]()
    for at in range(len(steps) - 1, -1, -1):
        kind, page_id = steps[at]
        uses.append(ahead.get(page_id, inf))
        if kind == LOOK:
            ahead[page_id] = at
        elif kind == FLUSH:
            ahead.clear()
        elif kind in (MAKE, DROP):
            ahead.pop(page_id, None)
    uses.reverse()
    return [
        _count_least(held[-size:] if size else (), ahead, steps, uses, size)
        for size in sizes
    ]


def _count_least(
    held: Sequence[str],
    ahead: dict[str, float],
    steps: Sequence[TlbStep],
    uses: Sequence[float],
    size: int,
) -> int:
    kept = {page_id: ahead[page_id] for page_id in held if page_id in ahead}
    heap = [(-use, page_id) for page_id, use in kept.items()]
    heapify(heap)
    misses = 0
    for (kind, page_id), use in zip(steps, uses, strict=True):
        if kind == FLUSH:
            kept, heap = {}, []
        elif kind in (DROP, ABSENT):
            misses += kind == ABSENT
            kept.pop(page_id, None)
        else:
            misses += kind == LOOK and page_id not in kept
            kept.pop(page_id, None)
            if use < inf:
                kept[page_id] = use
                heappush(heap, (-use, page_id))
            while len(kept) > size:
                last, farthest = heappop(heap)
                if kept.get(farthest) == -last:
                    del kept[farthest]
    return misses
