"""Erased places: which records some ranges name, as one thread sees them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.pages import Entry, LevelEntry
from memoryhub.kernel.state.state import ThreadState

Spans = tuple[tuple[int, int], ...]
_START = 1


class Erased(NamedTuple):
    """Asked by place, or by the thread's clock."""

    spans: dict[UUID, Spans]
    clocks: Spans

    def holds(self, thread: UUID, seq: int) -> bool:
        return _within(self.spans.get(thread, ()), seq)

    def at(self, clock: int | None) -> bool:
        """Return whether the event of that clock is erased; None is no event."""
        return clock is not None and _within(self.clocks, clock)


def erased(state: ThreadState, ranges: Iterable[Range]) -> Erased:
    """Resolve ranges of a thread and of what it inherits."""
    gone = named(clipped(state, ranges))
    clocks, began = [], 0
    for thread, up_to in _journals(state):
        spans = gone.spans.get(thread, ())
        clocks += [(began + first, began + last) for first, last in spans]
        began += up_to
    return gone._replace(clocks=tuple(clocks))


def named(ranges: Iterable[Range]) -> Erased:
    """Resolve ranges by place alone, whichever thread asks."""
    ordered: dict[UUID, list[tuple[int, int]]] = {}
    for thread, first, last in ranges:
        ordered.setdefault(thread, []).append((first, last))
    spans = {thread: tuple(joined(each)) for thread, each in ordered.items()}
    return Erased(spans=spans, clocks=())


def clipped(state: ThreadState, ranges: Iterable[Range]) -> list[Range]:
    """Clip the ranges to what the thread holds or inherits.

    Sorted as its clock goes, those that meet joined.
    """
    gone = named(ranges)
    found: list[Range] = []
    for thread, up_to in _journals(state):
        wanted = gone.spans.get(thread, ())
        spans = ((max(_START, first), min(last, up_to)) for first, last in wanted)
        found += [(thread, *span) for span in joined(spans)]
    return found


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and join those that touch; empty ones are left out."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if first > last:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def count(ranges: Iterable[Range]) -> int:
    """Count the records that the ranges name."""
    return sum(last - first + 1 for _, first, last in ranges)


def stripped(entry: Entry, gone: Erased) -> Entry | None:
    """Return the entry without erased texts; None when its FULL is erased."""
    if _lies_in(entry.full, gone):
        return None
    hint = entry.hint
    if hint is not None and gone.holds(hint.thread, hint.seq):
        entry = entry._replace(hint=None)
    if any(_lies_in(level, gone) for level in entry.levels):
        kept = (None if _lies_in(each, gone) else each for each in entry.levels)
        full, reduced, abstract, reference = kept
        entry = entry._replace(levels=(full, reduced, abstract, reference))
    return entry


def _lies_in(level: LevelEntry | None, gone: Erased) -> bool:
    return level is not None and gone.holds(level.location.thread, level.location.seq)


def _journals(state: ThreadState) -> Iterator[tuple[UUID, int]]:
    """The journals that the state comes of, oldest first, and how far each counts."""
    for part in state.lineage:
        yield part.thread, part.up_to_seq
    yield state.id, state.seq


def _within(spans: Spans, number: int) -> bool:
    place = bisect_right(spans, number, key=_first) - 1
    return place >= 0 and number <= spans[place][1]


def _first(span: tuple[int, int]) -> int:
    return span[0]
