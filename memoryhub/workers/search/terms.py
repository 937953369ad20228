"""Search terms, written ahead into segments, so that a search has little to open.

A thread is due with 500 events that no segment covers, or with fewer once it is silent,
for example after an import. A thread that is being written to is checked every two
seconds. Newer segments are joined while they are at least half as long as the one
before, so that a thread has at most log2 of its events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from uuid import UUID

from django.db.models import F, Q, QuerySet, Sum

from memoryhub import journal
from memoryhub.errors import KeyMissingError, Refusal, UnavailableError
from memoryhub.journal.log import thread_terms
from memoryhub.kernel.search import segments
from memoryhub.kernel.search.index import Span, list_missing_spans
from memoryhub.kernel.search.segments import IndexSegment
from memoryhub.models.events import ThreadTerms
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.search import indexes

#: Events that searches read themselves while a thread is busy.
EVERY = 500
SILENT = timedelta(minutes=1)
#: Time within which a thread that was written to moves in its project's list.
LATELY = timedelta(seconds=30)
#: Threads that one pass looks at, and records that it opens for each.
THREADS = 50
MOST = 5_000
#: Threads whose segments one query counts.
EXAMINED = 500
#: Seconds after which a pass begins no other thread: the lease is renewed only between
#: passes.
PASS_SECONDS = 5
#: Events that are read without a pause.
SLICE = 250
#: Seconds until a pass looks again at busy threads, and looks in vain that end a pass.
#: Somebody who writes in bulk writes 3,000 events a second.
LOOK_SECONDS, LOOKS = 0.1, 5


def write_ahead(now: datetime) -> int:
    """Write segments where they are due; return how many threads got one.

    Looks at all threads, with a query for 500 of them; for each thread that is due,
    five and those of its events. A thread that can't be read is left out until it has
    moved.
    """
    return _write_segments(_iter_due(Thread.objects.all(), silent=now - SILENT))


def write_busy_threads(now: datetime) -> int:
    """Write segments of threads that are being written to; return how many were.

    Like `write_ahead`, but looks only at threads of the last 30 seconds, by an index. A
    pass that found such a thread goes on until none is due for half a second.
    """
    lately = Q(project__in=Project.objects.values("id"), listed_at__gte=now - LATELY)
    written, vain, end = 0, 0, time.monotonic() + PASS_SECONDS
    while True:
        found = _write_segments(_iter_due(Thread.objects.filter(lately)))
        written, vain = written + found, 0 if found else vain + 1
        if not written or vain == LOOKS or time.monotonic() >= end:
            return written
        time.sleep(0 if found else LOOK_SECONDS)


def _write_segments(threads: Iterator[Thread]) -> int:
    written, end = 0, time.monotonic() + PASS_SECONDS
    for thread in islice(threads, THREADS):
        try:
            written += write_segment(thread)
        except Refusal as refusal:
            missing_key = isinstance(refusal, KeyMissingError)
            if isinstance(refusal, UnavailableError) and not missing_key:
                break
        if time.monotonic() >= end:
            break
    return written


def write_segment(thread: Thread) -> bool:
    """Write the uncovered events of a thread into a segment, 5,000 records at most.

    Returns whether a segment was written: none is where an erasure came meanwhile.
    `thread` comes with its subject.
    """
    rows = ThreadTerms.objects.filter(thread=thread).order_by("upto_seq")
    kept = [*rows.only("thread_id", "first_seq", "upto_seq")]
    gaps = list_missing_spans([_to_span(row) for row in kept], thread.head_seq)
    if not gaps:
        return False
    first, last = gaps[0]
    written = False
    try:
        made, last = _build_slices(thread, (first, last))
        before = [row for row in kept if row.upto_seq < first]
        old, span = _choose_joined(before, (first, last))
        parts = [*_open_segments(thread, old), *made]
        row = thread_terms.seal_row(thread, span, segments.join_segments(parts))
        work = partial(thread_terms.replace, thread, old, row, head=thread.head_seq)
        written = bool(journal.run(work))
    finally:
        if not written:
            # The slices may hold what was erased since.
            thread_terms.forget(thread.subject_id)
    return written


def _build_slices(thread: Thread, span: Span) -> tuple[list[IndexSegment], int]:
    """Build segments of a span's beginning; return them and the last event covered.

    Each also joins the index in memory, so that a reader finds it before it is stored.
    Sleeps between slices as long as it has worked, by its CPU time: the worker takes
    half of the time that one thread of this process can have, and requests the rest.
    """
    made, opened, (first, last) = list[IndexSegment](), 0, span
    for start in range(first, last + 1, SLICE):
        began = time.thread_time()
        upto = min(last, start + SLICE - 1)
        found = thread_terms.read(thread, (start, upto), most=SLICE)
        made.append(indexes.add_read(thread, (start, upto), found))
        opened += found.opened
        if opened >= MOST:
            return made, upto
        time.sleep(time.thread_time() - began)
    return made, last


def _iter_due(
    threads: QuerySet[Thread], *, silent: datetime | None = None
) -> Iterator[Thread]:
    """Yield threads with 500 events in no segment; longest silent first.

    Also yields those with fewer that nobody has written to since `silent`. No join
    counts the events, since a cluster keeps segments apart from threads.
    """
    open_ones = threads.filter(
        status__in=(Thread.Status.OPEN, Thread.Status.CLOSED),
        subject__state=Subject.State.ACTIVE,
    ).order_by("last_event_at", "id")
    long = Q(head_seq__gte=EVERY)
    wanted = long if silent is None else long | Q(last_event_at__lte=silent)
    rows = [*open_ones.filter(wanted).values_list("id", "head_seq", "last_event_at")]
    for start in range(0, len(rows), EXAMINED):
        batch = rows[start : start + EXAMINED]
        covered = _count_covered([thread for thread, _, _ in batch])
        for thread, head, at in batch:
            left = head - covered.get(thread, 0)
            rests = silent is not None and at <= silent and left > 0
            if left >= EVERY or rests:
                yield from open_ones.filter(id=thread).select_related("subject")


def _count_covered(threads: Sequence[UUID]) -> dict[UUID, int]:
    """Count the events of threads that segments cover. One query."""
    rows = ThreadTerms.objects.filter(thread__in=threads).order_by()
    length = F("upto_seq") - F("first_seq") + 1
    return dict(rows.values_list("thread").annotate(n=Sum(length)))


def _choose_joined(
    before: Sequence[ThreadTerms], span: Span
) -> tuple[list[ThreadTerms], Span]:
    """Return the segments to be joined with the new one, and the span of all."""
    old, (first, last) = list[ThreadTerms](), span
    for row in reversed(before):
        if row.upto_seq + 1 != first or row.upto_seq - row.first_seq >= 2 * (
            last - first + 1
        ):
            break
        old.insert(0, row)
        first = row.first_seq
    return old, (first, last)


def _open_segments(thread: Thread, rows: Sequence[ThreadTerms]) -> list[IndexSegment]:
    """Open the segments to be joined; rebuild those with another version's terms."""
    found = list[IndexSegment]()
    for row in rows:
        segment = thread_terms.open_segment(thread, row)
        if segment is None:
            read = thread_terms.read(thread, _to_span(row), most=row.upto_seq)
            segment = segments.build(read.records)
        found.append(segment)
    return found


def _to_span(row: ThreadTerms) -> Span:
    return row.first_seq, row.upto_seq
