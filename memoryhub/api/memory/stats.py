from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Path, Query

from memoryhub.api.document.fields import Out, ThreadName, build_example
from memoryhub.api.document.samples import AT, THREAD
from memoryhub.api.document.schemas import AsOf, ScopeOut
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter
from memoryhub.api.http.reading import (
    GONE,
    get_agent_thread,
    get_seq,
    require_unrestricted,
)
from memoryhub.api.memory.working_memory import STATS, MemoryStatsOut
from memoryhub.errors import SeqUnknownError, SubjectErasedError, SubjectRestrictedError
from memoryhub.models.server.clock import clock
from memoryhub.queries.memory.stats import (
    get_project_counts,
    get_subject_counts,
    get_thread_stats,
)

router = StrictRouter(tags=["stats"])


_TALLY = {"top": {"chat.user": 1, "chat.assistant": 1}, "other": 0}


class TallyOut(Out):
    """Counts by name: the largest 50, and the rest together."""

    top: dict[str, int]
    other: int


class ThreadStatsOut(MemoryStatsOut):
    model_config = build_example(
        {
            "thread": "booking:204",
            "seq": 3,
            "slots": 2,
            "inherited": 0,
            "turns": 0,
            "events": 3,
            "tokens": 31,
            "bytes": 120,
            "max_slots": 50000,
            "headroom": 49998,
            "first_at": AT,
            "last_at": AT,
            "idle_seconds": 12.5,
            "types": _TALLY,
            "senders": _TALLY,
            "forks": 0,
            "scope": THREAD["scope"],
            "created_at": AT,
            **STATS,
        }
    )

    thread: str
    seq: int
    slots: int
    inherited: int
    turns: int
    events: int
    tokens: int
    bytes: int
    max_slots: int
    headroom: int
    first_at: datetime | None
    last_at: datetime | None
    idle_seconds: float
    types: TallyOut
    senders: TallyOut
    forks: int
    scope: ScopeOut
    created_at: datetime


class ProjectStatsOut(Out):
    """Sums taken every 10 s; `age_seconds` is their age.

    For a key that is bound to a subject, sums of its threads, taken now.
    """

    model_config = build_example(
        {
            "taken_at": AT,
            "age_seconds": 4.2,
            "threads": {"open": 3, "closed": 1, "retired": 0, "erased": 0},
            "max_threads": 100000,
            "nearly_full_threads": 0,
            "slots": 9,
            "tokens": 310,
            "bytes": 1200,
        }
    )

    taken_at: datetime
    age_seconds: float
    threads: dict[str, int]
    max_threads: int
    nearly_full_threads: int
    slots: int
    tokens: int
    bytes: int


@router.route(
    "GET",
    "/threads/{thread}/stats",
    needs=auth.READ,
    out=ThreadStatsOut,
    refusals=[*GONE, SeqUnknownError],
)
def of_thread(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> ThreadStatsOut:
    """Count a thread's contents, now or as of an event."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = get_thread_stats(
        thread_row, now=clock.now(), at_seq=get_seq(thread_row, query)
    )
    return ThreadStatsOut.from_record(
        found,
        thread=thread,
        **found.memory.to_dict(),
    )


@router.route(
    "GET",
    "/stats",
    needs=auth.READ,
    out=ProjectStatsOut,
    refusals=[SubjectErasedError, SubjectRestrictedError],
)
def of_project(request: HttpRequest) -> ProjectStatsOut:
    """Return the project's counts, as last summed up.

    A key that is bound to a subject gets that subject's threads only.
    """
    agent = auth.get_caller(request)
    now = clock.now()
    require_unrestricted(agent)
    if agent.bound is None:
        found = get_project_counts(agent.project, now=now)
    else:
        found = get_subject_counts(agent.project, agent.bound, now=now)
    return ProjectStatsOut.model_validate(found)
