"""Indexes in memory: what is found of a subject, caught up to now by who reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from memoryhub.journal.log import thread_terms
from memoryhub.kernel.search import segments, terms
from memoryhub.kernel.search.index import Index, Span, missing, united
from memoryhub.kernel.search.segments import Segment
from memoryhub.models.events import ThreadTerms
from memoryhub.models.threads import Thread

#: Records that a reader opens itself, of all threads together.
MOST = 5_000
#: Threads whose segments one statement reads.
_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """An index, and whether all that was written is in it."""

    index: Index
    complete: bool


def caught_up(threads: Sequence[Thread], *, eldest: UUID | None = None) -> CaughtUp:
    """Return the subject's index with all of these threads in it.

    With the `eldest` of a history, that of it and its forks alone. `threads` are of one
    subject, which comes with them, the more urgent first. None that has not moved costs
    anything; else three queries, two for 200 that are new here, and three for each that
    moved. Opens 5,000 records at most; what is left is read by who asks again.
    """
    if not threads:
        return CaughtUp(index=Index(), complete=True)
    subject = threads[0].subject
    key = (subject.id, subject.epoch, eldest)
    held = thread_terms.indexes.get(key)
    found = _brought_up(held or Index(), threads)
    if found is None:
        # Something of what is held was erased since.
        found = _brought_up(Index(), threads)
    assert found is not None
    if found.index is not held:
        thread_terms.indexes.put(key, found.index, weight=found.index.size)
    return found


def _brought_up(index: Index, threads: Sequence[Thread]) -> CaughtUp | None:
    """The index caught up; None if something ended that it holds by now."""
    stored = _stored([each for each in threads if each.id not in index.covered])
    loaded = list[tuple[UUID, Segment]]()
    covered = dict[UUID, tuple[Span, ...]]()
    stem = terms.stemmer()
    left = MOST
    for thread in threads:
        kept = stored.get(thread.id, [])
        loaded += [(thread.id, segment) for _, segment in kept]
        before = index.covered.get(thread.id, ())
        spans = united([*before, *(span for span, _ in kept)])
        gaps = missing(spans, thread.head_seq)
        # What was said last is looked for most.
        for gap in reversed(gaps if left > 0 else []):
            found = thread_terms.read(thread, gap, most=left)
            if found.ending and before and gap[0] > before[-1][1]:
                return None
            left -= found.opened
            spans = (*spans, (gap[0], found.upto))
            if found.records:
                loaded.append((thread.id, segments.build(found.records, stem)))
            if left <= 0:
                break
        if gaps or kept:
            covered[thread.id] = united(spans)
    grown = index.plus(loaded, covered) if covered else index
    return CaughtUp(index=grown, complete=_complete(grown, threads))


def _complete(index: Index, threads: Sequence[Thread]) -> bool:
    spans = ((index.covered.get(each.id, ()), each.head_seq) for each in threads)
    return not any(missing(covered, head) for covered, head in spans)


def _stored(threads: Sequence[Thread]) -> dict[UUID, list[tuple[Span, Segment]]]:
    """Open the segments of threads, oldest first. One query for 200."""
    found: dict[UUID, list[tuple[Span, Segment]]] = {}
    by_id = {each.id: each for each in threads}
    ids = [*by_id]
    for start in range(0, len(ids), _AT_ONCE):
        batch = ids[start : start + _AT_ONCE]
        rows = ThreadTerms.objects.filter(thread__in=batch)
        for row in rows.order_by("thread", "upto_seq").iterator():
            segment = thread_terms.opened(by_id[row.thread_id], row)
            if segment is not None:
                span = (row.first_seq, row.upto_seq)
                found.setdefault(row.thread_id, []).append((span, segment))
    return found
