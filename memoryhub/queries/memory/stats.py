"""Counts of what a thread and a project hold. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, Sum

from memoryhub.errors import NotFoundError
from memoryhub.kernel.state.state import OTHER, Counts, ScopeLabels, ThreadState
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.threads import Thread
from memoryhub.queries.memory.working_memory import MemoryStats, count_memory
from memoryhub.queries.replay.states import compute_instant, load_state

#: Number of types and senders shown by name; `other` counts the rest.
TOP = 50
#: Statuses that are counted, and statuses whose threads can still be read.
_COUNTED = ("open", "closed", "retired", "erased")
_READABLE = ("open", "closed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedCounts:
    """Counts by name, largest first, ties by name; `other` sums the names left out."""

    top: Mapping[str, int]
    other: int

    @classmethod
    def from_counts(cls, counts: Counts) -> RankedCounts:
        named = (each for each in counts.items() if each[0] != OTHER)
        ranked = sorted(named, key=lambda each: (-each[1], each[0]))
        rest = sum(n for _, n in ranked[TOP:]) + counts.get(OTHER, 0)
        return cls(top=dict(ranked[:TOP]), other=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStats:
    """Counts of a thread as of `seq`, inherited slots included."""

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
    #: Seconds since the newest event of an agent, an operator or an import.
    idle_seconds: float
    types: RankedCounts
    senders: RankedCounts
    #: Number of threads forked from this thread, at any time.
    forks: int
    memory: MemoryStats
    scope: ScopeLabels
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCounts:
    """Sums over the threads of a project, or of one subject, `age_seconds` old."""

    taken_at: datetime
    age_seconds: float
    threads: Mapping[str, int]
    max_threads: int
    nearly_full_threads: int
    slots: int
    tokens: int
    bytes: int


def get_thread_stats(
    thread: Thread, *, now: datetime, at_seq: int | None = None
) -> ThreadStats:
    """Count a thread, now or as of a seq. Five queries and a bounded fold.

    `thread` comes with its subject. Raises SeqUnknownError.
    """
    state = load_state(thread, at_seq)
    until = now if at_seq is None else (state.at or now)
    return ThreadStats(
        **_build_counts(state, until=until),
        forks=thread.forks.count(),
        memory=count_memory(thread, state, now=compute_instant(state, at_seq)),
        scope=state.scope,
        created_at=thread.created_at,
    )


def get_project_counts(project: UUID, *, now: datetime) -> ProjectCounts:
    """Return the project's last computed sums. One query; costs no scan."""
    rows = ProjectStats.objects.select_related("project")
    row = rows.filter(project_id=project).first()
    if row is None:
        raise NotFoundError
    return ProjectCounts(
        taken_at=row.taken_at,
        age_seconds=max(0.0, (now - row.taken_at).total_seconds()),
        threads={
            "open": row.open_threads,
            "closed": row.closed_threads,
            "retired": row.retired_threads,
            "erased": row.erased_threads,
        },
        max_threads=row.project.max_threads,
        nearly_full_threads=row.nearly_full_threads,
        slots=row.slots,
        tokens=row.tokens,
        bytes=row.bytes,
    )


def get_subject_counts(project: UUID, subject: UUID, *, now: datetime) -> ProjectCounts:
    """Count the threads of one subject, computed now. Two queries.

    `max_threads` is the project's: a limit that binds the subject too, not a sum.
    """
    limit = Project.objects.filter(id=project).values_list("max_threads", flat=True)
    max_threads = limit.first()
    if max_threads is None:
        raise NotFoundError
    threads = Thread.objects.filter(project_id=project, subject_id=subject, home=False)
    rows = (
        threads.order_by()
        .values("status")
        .annotate(
            threads=Count("id"),
            full=Count("id", filter=Q(nearly_full=True)),
            slots_sum=Sum("slot_count"),
            tokens_sum=Sum("token_count"),
            bytes_sum=Sum("byte_count"),
        )
    )
    found = {row["status"]: row for row in rows}
    readable = [found[status] for status in _READABLE if status in found]
    return ProjectCounts(
        taken_at=now,
        age_seconds=0.0,
        threads={s: found[s]["threads"] if s in found else 0 for s in _COUNTED},
        max_threads=max_threads,
        nearly_full_threads=sum(row["full"] for row in readable),
        slots=sum(row["slots_sum"] for row in readable),
        tokens=sum(row["tokens_sum"] for row in readable),
        bytes=sum(row["bytes_sum"] for row in readable),
    )


def _build_counts(state: ThreadState, *, until: datetime) -> dict[str, Any]:
    idle = (until - state.active_at).total_seconds() if state.active_at else 0.0
    return {
        "seq": state.seq,
        "slots": state.slot_count,
        "inherited": state.inherited,
        "turns": state.turn_count,
        "events": state.seq,
        "tokens": state.token_count,
        "bytes": state.byte_count,
        "max_slots": state.max_slots,
        "headroom": max(0, state.max_slots - state.slot_count),
        "first_at": state.created_at,
        "last_at": state.at,
        "idle_seconds": max(0.0, idle),
        "types": RankedCounts.from_counts(state.types),
        "senders": RankedCounts.from_counts(state.senders),
    }
