"""An index: segments of many threads, joined so that a search is a few passes. Pure.

Never changed: what comes later makes another one of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from memoryhub.kernel.search import segments
from memoryhub.kernel.search.arrays import Numbers, Records, np
from memoryhub.kernel.search.segments import (
    RECORD,
    Postings,
    Segment,
)

#: The first and last seq of a run of a thread.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Records of a subject, with postings in parts that halve in size."""

    threads: tuple[UUID, ...] = ()
    #: By thread, from which seqs to which all that can be found is here.
    covered: Mapping[UUID, tuple[Span, ...]] = field(default_factory=dict)
    records: Records = field(default_factory=lambda: np.empty(0, RECORD))
    names: tuple[str, ...] = tuple(segments.named())
    parts: tuple[Postings, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that it takes, nearly."""
        return self.records.nbytes + sum(part.size for part in self.parts)

    def plus(
        self,
        found: Sequence[tuple[UUID, Segment]],
        covered: Mapping[UUID, tuple[Span, ...]],
    ) -> Index:
        """Return the index with more segments, and what of these threads is covered.

        Linear in the records; postings are joined once for each doubling.
        """
        threads = {thread: at for at, thread in enumerate(self.threads)}
        names = segments.named(self.names)
        records, parts = [self.records], list[Postings]()
        count = len(self.records)
        for thread, segment in found:
            added = segments.renamed(segment, names)
            added["thread"] = threads.setdefault(thread, len(threads))
            records.append(added)
            parts.append(segment.postings.moved(count))
            count += len(added)
        return Index(
            threads=tuple(threads),
            covered={**self.covered, **covered},
            records=np.concatenate(records),
            names=tuple(names),
            parts=_balanced([*self.parts, *_joined(parts)]),
        )

    def caps(self, up_to: Mapping[UUID, int]) -> Numbers:
        """Return by thread's place up to which seq it is seen; -1 for not at all."""
        return np.array([up_to.get(each, -1) for each in self.threads], np.int64)


def _joined(parts: list[Postings]) -> list[Postings]:
    return [segments.merged(parts)] if parts else []


def _balanced(parts: list[Postings]) -> tuple[Postings, ...]:
    """Join the last ones until each has twice the records of the one after it."""
    while len(parts) > 1 and len(parts[-2].records) < 2 * len(parts[-1].records):
        parts[-2:] = [segments.merged(parts[-2:])]
    return tuple(parts)


def missing(covered: Sequence[Span], last: int) -> list[Span]:
    """Return the spans from the first seq to the last that none of these covers."""
    found, first = list[Span](), 1
    for start, end in covered:
        if first < start:
            found.append((first, min(start - 1, last)))
        first = max(first, end + 1)
    return [*found, (first, last)] if first <= last else found


def united(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return spans in order, those that meet joined."""
    found = list[Span]()
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)
