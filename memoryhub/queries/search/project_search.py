"""Search of a project, thread by thread, newest first. Never writes; slow, stoppable.

For operators with a purpose: the caller audits each thread's result before showing it.
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
from memoryhub.queries.search.term_filters import TermFilter
from memoryhub.queries.threads import threads

#: Number of threads read in one statement.
CHUNK = 100


class SearchPosition(NamedTuple):
    """Position of a project search: the last searched thread and its listing time."""

    listed_at: datetime
    thread: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFound:
    """The result of one thread in a project search, and the search's progress."""

    thread: Thread
    #: Without items if the thread has no match.
    result: SearchResult
    #: Number of threads searched so far, including this thread.
    looked: int

    @property
    def place(self) -> SearchPosition:
        return SearchPosition(self.thread.listed_at, self.thread.id)


def iter_project(
    project: UUID, request: SearchRequest, *, after: SearchPosition | None = None
) -> Generator[ThreadFound]:
    """Yield each thread of a project with its search result, newest first.

    `after` continues behind a thread that was searched before. A thread created or
    moved during the search may be left out. The search works at most 100 threads ahead:
    a caller stops it by not asking for the next thread. Forks also show what they
    inherit. Three queries per 100 threads, and those of `search_thread` for each thread
    that can match. Subjects that are restricted or being erased are left out; a subject
    without its key gives an empty, degraded result.
    """
    looked, last = 0, after
    filtered = TermFilter.build(request.query)
    rows = threads.filter_visible(project).exclude(status=Thread.Status.ERASED)
    rows = rows.filter(subject__state=Subject.State.ACTIVE).select_related("subject")
    while True:
        left = rows if last is None else rows.filter(_build_after(last))
        batch = list(left.order_by("-listed_at", "id")[:CHUNK])
        hopeless = filtered.list_hopeless_threads(batch)
        for thread in batch:
            looked += 1
            try:
                if thread.id in hopeless:
                    result = SearchResult(reason="no_match")
                else:
                    result = search_thread(thread, request)
            except KeyMissingError:
                result = SearchResult(degraded=("key",))
            yield ThreadFound(thread=thread, result=result, looked=looked)
        if len(batch) < CHUNK:
            return
        last = SearchPosition(batch[-1].listed_at, batch[-1].id)


def _build_after(last: SearchPosition) -> Q:
    same = Q(listed_at=last.listed_at, id__gt=last.thread)
    return same | Q(listed_at__lt=last.listed_at)
