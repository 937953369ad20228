"""In-memory search indexes of subjects, brought up to date by readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memoryhub.journal.log import thread_terms
from memoryhub.journal.log.thread_terms import ReadRecords
from memoryhub.kernel.search import segments, terms
from memoryhub.kernel.search.index import Index, Span, list_missing_spans, unite_spans
from memoryhub.kernel.search.segments import IndexSegment
from memoryhub.models.events import ThreadTerms
from memoryhub.models.threads import Thread

#: Maximum number of records that a reader opens itself, over all threads.
MOST = 5_000
#: Number of records that a hasty reader opens if `MOST` would not complete the index.
FEW = 100
#: Number of threads whose segments one statement reads.
_AT_ONCE = 200
_Stored = Sequence[tuple[Span, IndexSegment]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage:
    """A search index, and whether the index covers all events of the threads."""

    index: Index
    complete: bool


def catch_up(
    threads: Sequence[Thread], *, eldest: UUID | None = None, hasty: bool = False
) -> IndexCoverage:
    """Return the subject's index with all of these threads in it.

    With `eldest`, the root thread of a history, the index covers that history alone.
    `threads` are of one subject, which comes with them, the more urgent first. A thread
    that has not moved costs nothing. Else three queries, two per 200 threads new to the
    index, and three per thread that moved. Opens 5,000 records at most; the next reader
    reads the rest. A `hasty` reader opens 100 records if 5,000 would not be all, since
    the worker indexes so many events before long.
    """
    if not threads:
        return IndexCoverage(index=Index(), complete=True)
    subject = threads[0].subject
    key = (subject.id, subject.epoch, eldest)
    held = thread_terms.indexes.get(key)
    if held is not None and _has_more_stored(held, threads):
        held = None
    found = _catch_up_index(held or Index(), threads, hasty=hasty)
    if found is None:
        # A part of the cached index was erased since: rebuild the index.
        found = _catch_up_index(Index(), threads, hasty=hasty)
    assert found is not None
    if found.index is not held:
        thread_terms.indexes.put(key, found.index, weight=found.index.size)
    return found


def add_read(thread: Thread, span: Span, read: ReadRecords) -> IndexSegment:
    """Build a segment of a thread's records, and add the segment to the held index.

    So the first search after many writes finds the index there. A thread's first span
    begins an index where there is room. Forks are left to readers. A span that may end
    earlier records drops the index. `read` is of the whole `span`. No query.
    """
    segment = segments.build(read.records)
    if thread.parent_id is not None:
        return segment
    key = (thread.subject_id, thread.subject.epoch, thread.id)
    held = thread_terms.indexes.get(key) or Index()
    spans = held.covered.get(thread.id, ())
    # A reader may have read a part of the span meanwhile; gaps are left to readers.
    upto = spans[-1][1] if spans else 0
    if read.ending and spans:
        thread_terms.indexes.pop(key)
    elif span[0] - 1 <= upto < span[1] and spans in ((), ((1, upto),)):
        new = [each for each in read.records if each.seq > upto]
        added = segment if len(new) == len(read.records) else segments.build(new)
        covered = {thread.id: ((1, span[1]),)}
        grown = held.add_segments([(thread.id, added)], covered)
        if spans or thread_terms.indexes.has_room(grown.size):
            thread_terms.indexes.put(key, grown, weight=grown.size)
    return segment


def _catch_up_index(
    index: Index, threads: Sequence[Thread], *, hasty: bool
) -> IndexCoverage | None:
    """Bring the index up to date; None if the index holds a part erased since."""
    stored = _open_segments([each for each in threads if each.id not in index.covered])
    loaded = list[tuple[UUID, IndexSegment]]()
    covered = dict[UUID, tuple[Span, ...]]()
    stem = terms.build_stemmer()
    left = MOST
    if hasty and _count_uncovered(index, threads, stored) > MOST:
        left = FEW
    for thread in threads:
        kept = stored.get(thread.id, [])
        loaded += [(thread.id, segment) for _, segment in kept]
        before = index.covered.get(thread.id, ())
        spans = _unite_covered(before, kept)
        gaps = list_missing_spans(spans, thread.head_seq)
        # Read the newest gap first: searches mostly want recent records.
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
            covered[thread.id] = unite_spans(spans)
    grown = index.add_segments(loaded, covered) if covered else index
    return IndexCoverage(index=grown, complete=_is_complete(grown, threads))


def _has_more_stored(index: Index, threads: Sequence[Thread]) -> bool:
    """Tell whether the worker has stored segments of what an index lacks of threads.

    One query, or none where the index lacks `MOST` events or fewer of those it holds.
    """
    held = [each for each in threads if each.id in index.covered]
    if _count_uncovered(index, held, {}) <= MOST:
        return False
    rows = ThreadTerms.objects.filter(thread__in=[each.id for each in held])
    return any(
        list_missing_spans([(1, first - 1), *index.covered[thread]], upto)
        for thread, first, upto in rows.values_list("thread", "first_seq", "upto_seq")
    )


def _count_uncovered(
    index: Index, threads: Sequence[Thread], stored: Mapping[UUID, _Stored]
) -> int:
    """Count the events that neither the index nor a stored segment covers."""
    return sum(
        last - first + 1
        for each in threads
        for first, last in list_missing_spans(
            _unite_covered(index.covered.get(each.id, ()), stored.get(each.id, ())),
            each.head_seq,
        )
    )


def _unite_covered(before: Sequence[Span], kept: _Stored) -> tuple[Span, ...]:
    return unite_spans([*before, *(span for span, _ in kept)])


def _is_complete(index: Index, threads: Sequence[Thread]) -> bool:
    spans = ((index.covered.get(each.id, ()), each.head_seq) for each in threads)
    return not any(list_missing_spans(covered, head) for covered, head in spans)


def _open_segments(
    threads: Sequence[Thread],
) -> dict[UUID, list[tuple[Span, IndexSegment]]]:
    """Open the segments of threads, oldest first. One query per 200 threads."""
    found: dict[UUID, list[tuple[Span, IndexSegment]]] = {}
    by_id = {each.id: each for each in threads}
    ids = [*by_id]
    for start in range(0, len(ids), _AT_ONCE):
        batch = ids[start : start + _AT_ONCE]
        rows = ThreadTerms.objects.filter(thread__in=batch)
        for row in rows.order_by("thread", "upto_seq").iterator():
            segment = thread_terms.open_segment(by_id[row.thread_id], row)
            if segment is not None:
                span = (row.first_seq, row.upto_seq)
                found.setdefault(row.thread_id, []).append((span, segment))
    return found
