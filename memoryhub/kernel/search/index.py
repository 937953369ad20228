"""Index: segments of many threads, joined so that a search is a few passes. Pure.

An index never changes: adding segments builds another index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from memoryhub.kernel.search import segments
from memoryhub.kernel.search.arrays import Numbers, Records, np
from memoryhub.kernel.search.segments import (
    RECORD,
    IndexSegment,
    Postings,
)

#: The first and last seq of a run of a thread.
Span = tuple[int, int]
#: Parts that a search looks through; each costs a word some microseconds.
MOST_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Records of a subject, with postings in few parts."""

    threads: tuple[UUID, ...] = ()
    #: Spans of seqs by thread, in which every record is in the index.
    covered: Mapping[UUID, tuple[Span, ...]] = field(default_factory=dict)
    records: Records = field(default_factory=lambda: np.empty(0, RECORD))
    names: tuple[str, ...] = tuple(segments.number_names())
    parts: tuple[Postings, ...] = ()

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self.records.nbytes + sum(part.size for part in self.parts)

    def add_segments(
        self,
        found: Sequence[tuple[UUID, IndexSegment]],
        covered: Mapping[UUID, tuple[Span, ...]],
    ) -> Index:
        """Return the index with more segments, and with these threads' covered spans.

        Linear in the records. Postings are joined when there are nine parts, so that
        most readers join none.
        """
        threads = {thread: at for at, thread in enumerate(self.threads)}
        names = segments.number_names(self.names)
        records, parts = [self.records], [*self.parts]
        count = len(self.records)
        for thread, segment in found:
            added = segments.renumber_names(segment, names)
            added["thread"] = threads.setdefault(thread, len(threads))
            records.append(added)
            parts.append(segment.postings.shift_records(count))
            count += len(added)
        return Index(
            threads=tuple(threads),
            covered={**self.covered, **covered},
            records=np.concatenate(records),
            names=tuple(names),
            parts=_balance_parts(parts),
        )

    def build_caps(self, up_to: Mapping[UUID, int]) -> Numbers:
        """Return the last visible seq by the thread's place; -1 for a hidden thread."""
        return np.array([up_to.get(each, -1) for each in self.threads], np.int64)


def _balance_parts(parts: Sequence[Postings]) -> tuple[Postings, ...]:
    """Join the last of too many parts; each left has twice the records behind it."""
    if len(parts) <= MOST_PARTS:
        return tuple(parts)
    sizes, behind = [len(part.records) for part in parts], 0
    first = len(parts) - 1
    for at, size in reversed([*enumerate(sizes)]):
        if size < 2 * behind:
            first = at
        behind += size
    return (*parts[:first], segments.merge_postings(parts[first:]))


def list_missing_spans(covered: Sequence[Span], last: int) -> list[Span]:
    """List the spans between seq 1 and `last` that `covered` leaves out."""
    found, first = list[Span](), 1
    for start, end in covered:
        if first < start:
            found.append((first, min(start - 1, last)))
        first = max(first, end + 1)
    return [*found, (first, last)] if first <= last else found


def unite_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans in order, adjacent and overlapping spans joined."""
    found = list[Span]()
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
