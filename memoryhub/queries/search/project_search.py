"""Search of a project, thread by thread. Never writes; slow, stoppable.

Threads that hold the words of the query side by side come first, then threads of which
nothing is known, then threads that hold all words, then threads that hold some; newest
first in each pass. They go by their creation: by their last event, a thread that is
written meanwhile would move past the search and never be searched.

For operators with a purpose: the caller audits each thread's result before showing it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, get_args
from uuid import UUID

from django.db.models import Q, QuerySet

from memoryhub.errors import KeyMissingError
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.search.closest import search_closest
from memoryhub.queries.search.searching import (
    SearchRequest,
    SearchResult,
    search_thread,
)
from memoryhub.queries.search.term_filters import Fit, TermFilter
from memoryhub.queries.threads import threads

#: Number of threads read in one statement.
CHUNK = 100
#: How the threads of each pass fit, likeliest first.
PASSES: Final[tuple[Fit, ...]] = get_args(Fit)


class SearchPosition(NamedTuple):
    """Position of a project search: the last searched thread and its creation."""

    created_at: datetime
    thread: UUID
    #: Index in `PASSES`, and the indexes of the passes that have threads to come.
    pass_at: int = 0
    to_come: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFound:
    """The result of one thread in a project search, and the search's progress."""

    thread: Thread
    #: Without items if the thread has no match, or is for another pass.
    result: SearchResult
    #: Number of threads seen so far in this pass, including this thread.
    looked: int
    place: SearchPosition


def iter_project(
    project: UUID, request: SearchRequest, *, after: SearchPosition | None = None
) -> Generator[ThreadFound]:
    """Yield each thread of a project with its search result, newest first.

    A pass searches the threads of one fit. A next pass begins again at the newest
    thread, if threads of its fit were seen. `after` continues behind a thread that was
    searched before. A thread created during the search may be left out. The
    search works at most 100 threads ahead: a caller stops it by not asking for the next
    thread. Forks also show what they inherit. Three queries per 100 threads of a pass,
    and those of `search_closest` for each thread that can match. Subjects that are
    restricted or being erased are left out; a subject without its key gives an empty,
    degraded result.
    """
    filtered = TermFilter.build(request.query)
    pass_at = after.pass_at if after else 0
    to_come = {*after.to_come} if after else set[int]()
    last = after
    while True:
        looked = 0
        for batch in _iter_batches(project, last):
            fits = filtered.find_fits(batch)
            for thread in batch:
                looked, fit = looked + 1, fits[thread.id]
                result = SearchResult(reason="no_match")
                if fit == PASSES[pass_at]:
                    result = _search(thread, request, fit)
                elif fit and (other := PASSES.index(fit)) > pass_at:
                    to_come.add(other)
                here = (thread.created_at, thread.id, pass_at, (*sorted(to_come),))
                yield ThreadFound(
                    thread=thread,
                    result=result,
                    looked=looked,
                    place=SearchPosition(*here),
                )
        if not to_come:
            return
        pass_at, last = min(to_come), None
        to_come.remove(pass_at)


def count_threads(project: UUID) -> int:
    """Count the threads that `iter_project` searches. One query."""
    return _filter_searched(project).count()


def _search(thread: Thread, request: SearchRequest, fit: Fit) -> SearchResult:
    # No other thread can hold the words side by side.
    search = search_closest if fit in ("phrase", "unknown") else search_thread
    try:
        return search(thread, request)
    except KeyMissingError:
        return SearchResult(degraded=("key",))


def _iter_batches(project: UUID, last: SearchPosition | None) -> Iterator[list[Thread]]:
    rows = _filter_searched(project).select_related("subject")
    while True:
        left = rows if last is None else rows.filter(_build_after(last))
        batch = list(left.order_by("-created_at", "id")[:CHUNK])
        yield batch
        if len(batch) < CHUNK:
            return
        last = SearchPosition(batch[-1].created_at, batch[-1].id)


def _filter_searched(project: UUID) -> QuerySet[Thread]:
    rows = threads.filter_visible(project).exclude(status=Thread.Status.ERASED)
    return rows.filter(subject__state=Subject.State.ACTIVE)


def _build_after(last: SearchPosition) -> Q:
    same = Q(created_at=last.created_at, id__gt=last.thread)
    return same | Q(created_at__lt=last.created_at)
