"""A project searched, thread by thread, newest first. Never writes; slow and stoppable.

For operators with a purpose: whoever shows a thread's part has the look audited first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from memoryhub.errors import KeyMissingError
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.search.searching import (
    SearchRequest,
    SearchResult,
    search_thread,
)
from memoryhub.queries.threads import threads

#: Threads read in one statement.
CHUNK = 50


class Place(NamedTuple):
    """Where a search of a project goes on: behind a thread as it was listed."""

    listed_at: datetime
    thread: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFound:
    """One thread of a project that was searched, and how far the search is."""

    thread: Thread
    #: Without items when nothing is in it.
    result: SearchResult
    #: Threads that were looked through, this one included.
    looked: int

    @property
    def place(self) -> Place:
        return Place(self.thread.listed_at, self.thread.id)


def iter_project(
    project: UUID, request: SearchRequest, *, after: Place | None = None
) -> Generator[ThreadFound]:
    """Yield each thread of a project with what is found in it, newest first.

    `after` goes on behind a thread that was looked through before.
    A thread made or moved meanwhile may be left out. Nothing runs beyond what was asked
    for: stop asking to stop it. Forks tell what they inherit as well. A query for 50
    threads, and those of `search_thread` for each. Subjects that are restricted or
    being erased are left out, as are those whose key is missing.
    """
    looked, last = 0, after
    rows = threads.scoped(project).exclude(status=Thread.Status.ERASED)
    rows = rows.filter(subject__state=Subject.State.ACTIVE).select_related("subject")
    while True:
        left = rows if last is None else rows.filter(_after(last))
        batch = list(left.order_by("-listed_at", "id")[:CHUNK])
        for thread in batch:
            looked += 1
            try:
                result = search_thread(thread, request)
            except KeyMissingError:
                result = SearchResult(degraded=("key",))
            yield ThreadFound(thread=thread, result=result, looked=looked)
        if len(batch) < CHUNK:
            return
        last = Place(batch[-1].listed_at, batch[-1].id)


def _after(last: Place) -> Q:
    same = Q(listed_at=last.listed_at, id__gt=last.thread)
    return same | Q(listed_at__lt=last.listed_at)
