"""Terms: written ahead into segments, so that who searches has little to open.

A thread is due with 500 events that no segment covers, or with fewer once it is silent,
as after an import. While it is written to, it is looked at every two seconds. Of
segments the newer are joined while they are not half as long as the one before, so that
a thread has at most log2 of its events.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from memoryhub import journal
from memoryhub.errors import KeyMissingError, Refusal, UnavailableError
from memoryhub.journal.log import thread_terms
from memoryhub.kernel.search import segments
from memoryhub.kernel.search.index import Span, missing
from memoryhub.kernel.search.segments import Segment
from memoryhub.models.events import ThreadTerms
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread

#: Events that are left to readers while a thread is busy.
EVERY = 500
SILENT = timedelta(minutes=1)
#: Within which a thread that is written to appears in the order of its project's list.
LATELY = timedelta(seconds=30)
#: Threads that one pass looks at, and records that it opens of each.
THREADS = 50
MOST = 5_000
#: Seconds after which a pass begins no other thread: a lease is shown to be held
#: between passes alone.
PASS_SECONDS = 5
#: Events that are read without a pause.
SLICE = 250


def write_ahead(now: datetime) -> int:
    """Write segments where they are due; returns how many threads got one.

    One query to find them, which looks at all threads; for each, five and those of its
    events. What can't be read is left out until it has moved.
    """
    silent = Q(last_event_at__lte=now - SILENT, head_seq__gt=F("covered"))
    return _write_segments(_list_due(silent))


def write_busy_threads(now: datetime) -> int:
    """Write segments of threads that are written to; returns how many got one.

    As `write_ahead`, but looks at threads of the last 30 seconds alone, by an index.
    """
    lately = Q(project__in=Project.objects.values("id"), listed_at__gte=now - LATELY)
    return _write_segments(_list_due(Q()).filter(lately))


def _write_segments(threads: QuerySet[Thread]) -> int:
    written, end = 0, time.monotonic() + PASS_SECONDS
    for thread in threads[:THREADS]:
        try:
            written += bring_up(thread)
        except Refusal as refusal:
            missing_key = isinstance(refusal, KeyMissingError)
            if isinstance(refusal, UnavailableError) and not missing_key:
                break
        if time.monotonic() >= end:
            break
    return written


def bring_up(thread: Thread) -> bool:
    """Write what no segment of a thread covers into one, 5,000 records at most.

    Returns whether anything was written: nothing is where something of it was erased
    meanwhile. `thread` comes with its subject.
    """
    rows = ThreadTerms.objects.filter(thread=thread).order_by("upto_seq")
    kept = [*rows.only("thread_id", "first_seq", "upto_seq")]
    gaps = missing([_span(row) for row in kept], thread.head_seq)
    if not gaps:
        return False
    first, last = gaps[0]
    made, last = _build_slices(thread, (first, last))
    before = [row for row in kept if row.upto_seq < first]
    old, span = _joined(before, (first, last))
    parts = [*_opened(thread, old), *made]
    row = thread_terms.sealed_row(thread, span, segments.joined(parts))
    work = partial(thread_terms.replace, thread, old, row, head=thread.head_seq)
    written: bool = journal.run(work)
    return written


def _build_slices(thread: Thread, span: Span) -> tuple[list[Segment], int]:
    """Return segments of a run's beginning, and its last event that they cover.

    Between slices it sleeps as long as it has worked, so that it takes half of what one
    thread of this process can have, and requests the rest.
    """
    made, opened, (first, last) = list[Segment](), 0, span
    for start in range(first, last + 1, SLICE):
        began = time.perf_counter()
        upto = min(last, start + SLICE - 1)
        found = thread_terms.read(thread, (start, upto), most=SLICE)
        made.append(segments.build(found.records))
        opened += found.opened
        if opened >= MOST:
            return made, upto
        time.sleep(time.perf_counter() - began)
    return made, last


def _list_due(silent: Q) -> QuerySet[Thread]:
    """List threads with 500 events in no segment, or `silent`; longest silent first."""
    rows = ThreadTerms.objects.filter(thread=OuterRef("id")).order_by()
    length = F("upto_seq") - F("first_seq") + 1
    covered = rows.values("thread").annotate(n=Sum(length)).values("n")
    found = Thread.objects.filter(
        status__in=(Thread.Status.OPEN, Thread.Status.CLOSED),
        subject__state=Subject.State.ACTIVE,
    )
    found = found.annotate(covered=Coalesce(Subquery(covered), 0))
    found = found.filter(silent | Q(head_seq__gte=F("covered") + EVERY))
    return found.select_related("subject").order_by("last_event_at", "id")


def _joined(
    before: Sequence[ThreadTerms], span: Span
) -> tuple[list[ThreadTerms], Span]:
    """The segments that are joined with what is new behind them, and all it spans."""
    old, (first, last) = list[ThreadTerms](), span
    for row in reversed(before):
        if row.upto_seq + 1 != first or row.upto_seq - row.first_seq >= 2 * (
            last - first + 1
        ):
            break
        old.insert(0, row)
        first = row.first_seq
    return old, (first, last)


def _opened(thread: Thread, rows: Sequence[ThreadTerms]) -> list[Segment]:
    """Open those that are joined; one of other terms is read again from its events."""
    found = list[Segment]()
    for row in rows:
        segment = thread_terms.opened(thread, row)
        if segment is None:
            read = thread_terms.read(thread, _span(row), most=row.upto_seq)
            segment = segments.build(read.records)
        found.append(segment)
    return found


def _span(row: ThreadTerms) -> Span:
    return row.first_seq, row.upto_seq
