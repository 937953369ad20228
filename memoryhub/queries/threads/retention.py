"""Retention: when a thread has idled for as long as it is kept. Never writes.

The worker retires what this calls due, and the editor shows it before it is saved: one
definition, so the two can't disagree. A thread idles while neither it nor a fork of it,
at any depth, is active. What became of the fork does not matter, so that no thread's
day comes nearer than was shown. Nor does a thread go while its subject is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    Case,
    DateTimeField,
    DurationField,
    Exists,
    ExpressionWrapper,
    Func,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThan

from memoryhub.models.erasures import Erasure, Hold
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import holds
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.queries.lists.terms import Span, span_of
from memoryhub.queries.threads.threads import scoped

#: Days ahead that the editor looks; within how many a thread counts as due soon.
HORIZONS, SOON = (0, 7, 30), 7
#: Threads that are counted at most, and shown of each horizon.
COUNTED, SHOWN = 10_000, 5

_LIVING = (Thread.Status.OPEN, Thread.Status.CLOSED)
_GONE = (Subject.State.ERASING, Subject.State.ERASED)
#: Subjects whose retired threads are handed in at once.
_AT_ONCE = 100
_DAY = timedelta(days=1)


class _LastUsed(Func):
    """When the thread of this id, or a fork of it, was last active."""

    output_field = DateTimeField()
    template = (
        "(WITH RECURSIVE family(id, last_active_at) AS ("
        "SELECT own.id, own.last_active_at FROM memoryhub_thread own"
        " WHERE own.id = %(expressions)s UNION ALL "
        "SELECT fork.id, fork.last_active_at FROM memoryhub_thread fork"
        " JOIN family ON fork.parent_id = family.id"
        ") SELECT MAX(last_active_at) FROM family)"
    )


class _OwnPolicy(Func):
    """How long a thread of this config asks to be kept; NULL if it does not ask."""

    output_field = DurationField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        days = "JSON_EXTRACT(%(expressions)s, '$.retention_idle_days')"
        # A duration is a number of microseconds there.
        template = f"({days} * 86400000000)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        days = "(%(expressions)s::jsonb ->> 'retention_idle_days')::int"
        template = f"make_interval(days => {days})"
        return self.as_sql(compiler, connection, template=template, **context)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueLine:
    """A thread and the moment from which on the worker retires it."""

    name: str
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What is due within so many days, what is due now included."""

    days: int
    count: int
    #: Of those that no earlier horizon has, the first ones, and how many there are
    #: besides.
    first: tuple[DueLine, ...]
    further: int
    #: There are more than were counted.
    capped: bool


def due(project: Project, *, at: datetime) -> QuerySet[Thread]:
    """Return the threads to retire at that time, if nothing is active until then."""
    return due_in(project, Span(high=0), now=at)


def due_in(project: Project, span: Span, *, now: datetime) -> QuerySet[Thread]:
    """Return the threads whose day is in this span, in seconds from now.

    They carry `due_at`. Looks at all threads of the project that can be due: its
    `max_threads` is the bound.
    """
    rows = _dated(project)
    if span.high is not None:
        # Follows from the day itself; much cheaper to ask first.
        condition = Q(config__contains='"retention_idle_days"')
        if project.retention_idle_days is not None:
            kept = project.retention_idle_days * _DAY
            latest = now + timedelta(seconds=span.high) - kept
            condition |= Q(last_active_at__lte=latest)
        rows = rows.filter(condition)
    return rows.filter(
        span_of("due_at", span, lambda ahead: now + timedelta(seconds=ahead))
    )


def iter_retired(project: Project, *, at: datetime) -> Iterator[Thread]:
    """Yield retired threads to be erased, one of each subject, subjects included.

    None of a subject with a hold, a restriction or an erasure that is open. One query.
    """
    open_ones = Erasure.objects.exclude(state__in=CLOSED)
    rows = scoped(project.id).filter(status=Thread.Status.RETIRED)
    rows = rows.filter(subject__state=Subject.State.ACTIVE)
    rows = rows.exclude(holds.standing("subject", now=at))
    rows = rows.exclude(Exists(open_ones.filter(subject=OuterRef("subject"))))
    seen: set[UUID] = set()
    for row in rows.select_related("subject").order_by("id").iterator():
        if row.subject_id not in seen:
            seen.add(row.subject_id)
            yield row
        if len(seen) >= _AT_ONCE:
            return


def get_due_at(thread: Thread) -> datetime | None:
    """Return when the thread is due if nothing is active before; None: never.

    One query. `thread` comes with its project.
    """
    row: Any = _dated(thread.project).filter(id=thread.id).first()
    return None if row is None else row.due_at


def list_horizons(project: Project, *, now: datetime) -> tuple[Horizon, ...]:
    """Count what is due by each of HORIZONS. One query; at most COUNTED threads."""
    last = Span(high=HORIZONS[-1] * _DAY.total_seconds())
    rows: QuerySet[Any] = due_in(project, last, now=now)
    pairs = rows.order_by("due_at", "id").values_list("name", "due_at")
    found = list(pairs[: COUNTED + 1])
    lines = [DueLine(name=name, due_at=due_at) for name, due_at in found[:COUNTED]]
    horizons, before = [], 0
    for days in HORIZONS:
        # Soonest first, so that only what is counted last can be cut.
        count = sum(line.due_at <= now + days * _DAY for line in lines)
        capped = count == COUNTED < len(found)
        first = tuple(lines[before:count][:SHOWN])
        horizons.append(
            Horizon(
                days=days,
                count=count,
                first=first,
                further=count - before - len(first),
                capped=capped,
            )
        )
        before = count
    return tuple(horizons)


def count_soon(project: Project, *, now: datetime) -> int:
    """Count threads that are due within SOON days, at most COUNTED. One query."""
    return due_in(project, soon(), now=now).order_by()[:COUNTED].count()


def get_first_due_at(subject: Subject) -> datetime | None:
    """Return when the first thread of a subject is due; None: never. One query.

    `subject` comes with its project.
    """
    rows = _dated(subject.project).filter(subject=subject)
    if subject.project.retention_idle_days is None:
        # Follows from the day itself; much cheaper to ask first.
        rows = rows.filter(config__contains='"retention_idle_days"')
    found: datetime | None = rows.aggregate(first=Min("due_at"))["first"]
    return found


def soon() -> Span:
    """Return the time in which a thread counts as due soon."""
    return Span(high=SOON * _DAY.total_seconds())


def _held_until() -> Subquery:
    """When the last hold on the thread's subject expires; NULL if there is none."""
    rows = Hold.objects.filter(subject=OuterRef("subject_id"), lifted_at=None)
    return Subquery(rows.order_by("-expires_at").values("expires_at")[:1])


def _dated(project: Project) -> QuerySet[Thread]:
    """The living threads of a project with the day on which each is due, if any."""
    days = project.retention_idle_days
    own: Any = _OwnPolicy("config")
    kept = own if days is None else Coalesce(own, Value(days * _DAY))
    idle = ExpressionWrapper(_LastUsed("id") + kept, output_field=DateTimeField())
    # A hold puts the day off. Not by GREATEST: with no day it has one on PostgreSQL.
    held: Any = _held_until()
    due_at = Case(When(GreaterThan(held, idle), then=held), default=idle)
    rows = scoped(project.id).filter(status__in=_LIVING, home=False)
    rows = rows.exclude(subject__state__in=_GONE)
    return rows.annotate(due_at=due_at)
