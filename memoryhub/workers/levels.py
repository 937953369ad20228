"""Levels: makes lower levels of pages before their working set runs out of room.

An eviction run lowers pages only to existing levels: making levels there would delay
all who wait for the writer. A thread is looked at once, then again when it has moved.
See decision 14.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from django.db.models import QuerySet

from memoryhub import journal
from memoryhub.errors import KeyMissingError, Refusal, UnavailableError
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.paging import levels
from memoryhub.services.paging.levels import LevelsResult

#: Threads that one pass looks at, longest silent first. The rest are due ten seconds
#: later, when the marks of these threads are cleared.
THREADS = 100
#: Pages after which a pass begins no other thread: the lease ends after 30 seconds.
PAGES = 500


def make(now: datetime) -> int:
    """Make missing levels where they are due; return how many pages got levels.

    Emits page.compressed. One query to find due threads, by an index that holds nothing
    else. Skips threads of subjects that are restricted or being erased.
    """
    looked = written = 0
    for thread in list(_list_due()[:THREADS]):
        if looked >= PAGES:
            break
        try:
            made = levels.make_levels(thread)
        except Refusal as refusal:
            if isinstance(refusal, UnavailableError) and not isinstance(
                refusal, KeyMissingError
            ):
                break
            # A thread that can't be read or written must not come first for ever.
            made = LevelsResult(seq=thread.head_seq)
        if not made.void:
            journal.run(partial(_clear_mark, thread, made.seq))
        looked, written = looked + made.pages, written + made.written
    return written


def _list_due() -> QuerySet[Thread]:
    rows = Thread.objects.filter(
        levels_due=True,
        status=Thread.Status.OPEN,
        subject__state=Subject.State.ACTIVE,
    )
    return rows.select_related("subject").order_by("listed_at", "id")


def _clear_mark(thread: Thread, seq: int) -> None:
    """Clear the thread's mark, unless somebody has written to the thread meanwhile."""
    Thread.objects.filter(id=thread.id, head_seq=seq).update(levels_due=False)
