"""Levels: makes lower ones of pages before their working set runs out of room.

An eviction run lowers only to what is there: what it had to make itself would keep all
who wait for the writer. A thread is looked at once, then again when it has moved.
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
from memoryhub.services.paging.levels import Made

#: Threads that one pass looks at, longest silent first. What is left is due ten seconds
#: later, when those that were looked at are no longer before it.
THREADS = 100
#: Pages after which it begins with no other thread: the lease ends after 30 seconds.
PAGES = 500


def make(now: datetime) -> int:
    """Make what is lacking where it is due; returns how many pages got their levels.

    Emits page.compressed. One query to find what is due, by an index that holds nothing
    else. Threads of subjects that are restricted or being erased are left alone.
    """
    looked = written = 0
    for thread in list(_due()[:THREADS]):
        if looked >= PAGES:
            break
        try:
            made = levels.make(thread)
        except Refusal as refusal:
            if isinstance(refusal, UnavailableError) and not isinstance(
                refusal, KeyMissingError
            ):
                break
            # What can't be read or written to must not come first for ever.
            made = Made(seq=thread.head_seq)
        if not made.void:
            journal.run(partial(_looked, thread, made.seq))
        looked, written = looked + made.pages, written + made.written
    return written


def _due() -> QuerySet[Thread]:
    rows = Thread.objects.filter(
        levels_due=True,
        status=Thread.Status.OPEN,
        subject__state=Subject.State.ACTIVE,
    )
    return rows.select_related("subject").order_by("listed_at", "id")


def _looked(thread: Thread, seq: int) -> None:
    """Take the mark off, unless somebody has written to the thread meanwhile."""
    Thread.objects.filter(id=thread.id, head_seq=seq).update(levels_due=False)
