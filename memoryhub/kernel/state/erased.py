"""Erased places: the records that ranges name, as one thread sees them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.pages import LevelEntry, PageEntry
from memoryhub.kernel.state.state import ThreadState

Spans = tuple[tuple[int, int], ...]
_START = 1


class ErasedPlaces(NamedTuple):
    """Erased records, looked up by place or by the thread's clock."""

    spans: dict[UUID, Spans]
    clocks: Spans

    def has_place(self, thread: UUID, seq: int) -> bool:
        """Return whether the event (thread, seq) is erased."""
        return _is_within(self.spans.get(thread, ()), seq)

    def has_clock(self, clock: int | None) -> bool:
        """Return whether the event at a clock is erased; None is no event."""
        return clock is not None and _is_within(self.clocks, clock)


def resolve_ranges(state: ThreadState, ranges: Iterable[Range]) -> ErasedPlaces:
    """Resolve ranges of a thread and of its ancestors, by place and by clock."""
    gone = resolve_places(clip_ranges(state, ranges))
    clocks, began = [], 0
    for thread, up_to in _iter_journals(state):
        spans = gone.spans.get(thread, ())
        clocks += [(began + first, began + last) for first, last in spans]
        began += up_to
    return gone._replace(clocks=tuple(clocks))


def resolve_places(ranges: Iterable[Range]) -> ErasedPlaces:
    """Resolve ranges by place alone, independent of a thread."""
    ordered: dict[UUID, list[tuple[int, int]]] = {}
    for thread, first, last in ranges:
        ordered.setdefault(thread, []).append((first, last))
    spans = {thread: tuple(join_spans(each)) for thread, each in ordered.items()}
    return ErasedPlaces(spans=spans, clocks=())


def clip_ranges(state: ThreadState, ranges: Iterable[Range]) -> list[Range]:
    """Clip ranges to the records that the thread holds or inherits.

    The result is sorted by the thread's clock; ranges that meet are joined.
    """
    gone = resolve_places(ranges)
    found: list[Range] = []
    for thread, up_to in _iter_journals(state):
        wanted = gone.spans.get(thread, ())
        spans = ((max(_START, first), min(last, up_to)) for first, last in wanted)
        found += [(thread, *span) for span in join_spans(spans)]
    return found


def join_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans, join spans that touch, and drop empty spans."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if first > last:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def count_records(ranges: Iterable[Range]) -> int:
    """Count the records that the ranges name."""
    return sum(last - first + 1 for _, first, last in ranges)


def strip_entry(entry: PageEntry, gone: ErasedPlaces) -> PageEntry | None:
    """Return a page entry without erased texts; None when its FULL is erased."""
    if _is_erased(entry.full, gone):
        return None
    hint = entry.hint
    if hint is not None and gone.has_place(hint.thread, hint.seq):
        entry = entry._replace(hint=None)
    if any(_is_erased(level, gone) for level in entry.levels):
        kept = (None if _is_erased(each, gone) else each for each in entry.levels)
        full, reduced, abstract, reference = kept
        entry = entry._replace(levels=(full, reduced, abstract, reference))
    return entry


def _is_erased(level: LevelEntry | None, gone: ErasedPlaces) -> bool:
    return level is not None and gone.has_place(
        level.location.thread, level.location.seq
    )


def _iter_journals(state: ThreadState) -> Iterator[tuple[UUID, int]]:
    """Yield (thread, last seq that counts) of the state's journals, oldest first."""
    for part in state.lineage:
        yield part.thread, part.up_to_seq
    yield state.id, state.seq


def _is_within(spans: Spans, number: int) -> bool:
    place = bisect_right(spans, number, key=_get_first) - 1
    return place >= 0 and number <= spans[place][1]


def _get_first(span: tuple[int, int]) -> int:
    return span[0]
