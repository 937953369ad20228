"""Retention: the instant at which an idle thread is due to be retired. Never writes.

The worker retires the threads due here, and the settings page previews them before a
policy is saved: one definition, so that both agree. A thread is idle while neither the
thread nor any fork of it, at any depth, is active. The status of a fork does not
matter, so that no due date comes earlier than previewed. A legal hold on the subject
defers the due date. See decision 10.
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
from memoryhub.models.threads import KeepsOwnRetention, Thread
from memoryhub.queries.forget import holds
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.queries.lists.terms import NumberSpan, filter_span
from memoryhub.queries.threads.threads import filter_visible

#: Days ahead that the settings page previews; days within which a thread is due soon.
HORIZONS, SOON = (0, 7, 30), 7
#: Maximum number of threads counted, and of threads shown per horizon.
COUNTED, SHOWN = 10_000, 5

_LIVING = (Thread.Status.OPEN, Thread.Status.CLOSED)
_GONE = (Subject.State.ERASING, Subject.State.ERASED)
#: Number of subjects whose retired threads are submitted for erasure at once.
_AT_ONCE = 100
_DAY = timedelta(days=1)


class _LastUsed(Func):
    """Last activity of the thread of this id or of any fork of it."""

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
    """Retention that a thread's config sets; NULL if the config sets none."""

    output_field = DurationField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        days = "JSON_EXTRACT(%(expressions)s, '$.retention_idle_days')"
        # SQLite stores a duration as a number of microseconds.
        template = f"({days} * 86400000000)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        days = "(%(expressions)s::jsonb ->> 'retention_idle_days')::int"
        template = f"make_interval(days => {days})"
        return self.as_sql(compiler, connection, template=template, **context)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueLine:
    """A thread and the instant from which the worker retires it."""

    name: str
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Threads due within a number of days, including threads due now."""

    days: int
    count: int
    #: The first threads that no earlier horizon has, and the number of further threads.
    first: tuple[DueLine, ...]
    further: int
    #: Whether there are more threads than were counted.
    capped: bool


def filter_due(project: Project, *, at: datetime) -> QuerySet[Thread]:
    """Return the threads due at an instant, provided no activity comes before."""
    return filter_due_in(project, NumberSpan(high=0), now=at)


def filter_due_in(
    project: Project,
    span: NumberSpan,
    *,
    now: datetime,
    rows: QuerySet[Thread] | None = None,
) -> QuerySet[Thread]:
    """Return the threads, of `rows` or all, whose due date is in this span of seconds.

    The threads carry `due_at`. Reads all threads of the project that can be due: the
    project's `max_threads` is the bound. Without a policy of the project, these are the
    threads with a retention of their own.
    """
    rows = _annotate_due_at(project, rows)
    if span.high is not None:
        # This condition follows from the due date and is much cheaper to check first.
        condition = Q(KeepsOwnRetention("config"))
        if project.retention_idle_days is not None:
            kept = project.retention_idle_days * _DAY
            latest = now + timedelta(seconds=span.high) - kept
            condition |= Q(last_active_at__lte=latest)
        rows = rows.filter(condition)
    return rows.filter(
        filter_span("due_at", span, lambda ahead: now + timedelta(seconds=ahead))
    )


def iter_retired(project: Project, *, at: datetime) -> Iterator[Thread]:
    """Yield retired threads to be erased, one per subject, with its subject.

    Subjects with a legal hold, a restriction or an open erasure are left out. One
    query.
    """
    open_ones = Erasure.objects.exclude(state__in=CLOSED)
    rows = filter_visible(project.id).filter(status=Thread.Status.RETIRED)
    rows = rows.filter(subject__state=Subject.State.ACTIVE)
    rows = rows.exclude(holds.match_in_force("subject", now=at))
    rows = rows.exclude(Exists(open_ones.filter(subject=OuterRef("subject"))))
    seen: set[UUID] = set()
    for row in rows.select_related("subject").order_by("id").iterator():
        if row.subject_id not in seen:
            seen.add(row.subject_id)
            yield row
        if len(seen) >= _AT_ONCE:
            return


def get_due_at(thread: Thread) -> datetime | None:
    """Return the instant at which the thread is due without activity; None: never.

    One query. `thread` comes with its project.
    """
    row: Any = _annotate_due_at(thread.project).filter(id=thread.id).first()
    return None if row is None else row.due_at


def list_horizons(project: Project, *, now: datetime) -> tuple[Horizon, ...]:
    """Count the threads due by each of HORIZONS. One query; at most COUNTED threads."""
    last = NumberSpan(high=HORIZONS[-1] * _DAY.total_seconds())
    rows: QuerySet[Any] = filter_due_in(project, last, now=now)
    pairs = rows.order_by("due_at", "id").values_list("name", "due_at")
    found = list(pairs[: COUNTED + 1])
    lines = [DueLine(name=name, due_at=due_at) for name, due_at in found[:COUNTED]]
    horizons, before = [], 0
    for days in HORIZONS:
        # Lines are sorted by due date, so only the last horizon's count can be cut.
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
    """Count threads due within SOON days, up to COUNTED. One query."""
    return (
        filter_due_in(project, build_soon_span(), now=now).order_by()[:COUNTED].count()
    )


def get_first_due_at(subject: Subject) -> datetime | None:
    """Return the instant at which a subject's first thread is due; None: never.

    One query. `subject` comes with its project.
    """
    rows = _annotate_due_at(subject.project).filter(subject=subject)
    if subject.project.retention_idle_days is None:
        # This condition follows from the due date and is much cheaper to check first.
        rows = rows.filter(KeepsOwnRetention("config"))
    found: datetime | None = rows.aggregate(first=Min("due_at"))["first"]
    return found


def build_soon_span() -> NumberSpan:
    """Return the span in which a thread counts as due soon."""
    return NumberSpan(high=SOON * _DAY.total_seconds())


def _build_hold_end() -> Subquery:
    """Return the latest expiry of holds on a thread's subject; NULL without any."""
    rows = Hold.objects.filter(subject=OuterRef("subject_id"), lifted_at=None)
    return Subquery(rows.order_by("-expires_at").values("expires_at")[:1])


def _annotate_due_at(
    project: Project, rows: QuerySet[Thread] | None = None
) -> QuerySet[Thread]:
    """Annotate a project's open and closed threads with the due date, if any."""
    days = project.retention_idle_days
    own: Any = _OwnPolicy("config")
    kept = own if days is None else Coalesce(own, Value(days * _DAY))
    idle = ExpressionWrapper(_LastUsed("id") + kept, output_field=DateTimeField())
    # A hold defers the date. Not GREATEST: on PostgreSQL it ignores a NULL date.
    held: Any = _build_hold_end()
    due_at = Case(When(GreaterThan(held, idle), then=held), default=idle)
    rows = filter_visible(project.id) if rows is None else rows
    rows = rows.filter(status__in=_LIVING, home=False)
    rows = rows.exclude(subject__state__in=_GONE)
    return rows.annotate(due_at=due_at)
