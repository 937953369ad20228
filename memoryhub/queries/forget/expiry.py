"""Expiry: what is due to be swept and erased, and for how long. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db.models import Model, OuterRef, QuerySet, Subquery

from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.queries.forget import holds

Row = TypeVar("Row", bound=Model)

#: Values that are counted at most.
COUNTED = 10_000
#: Threads that take commands of a worker.
_WRITABLE = (Thread.Status.OPEN, Thread.Status.CLOSED)
_FENCED = (Subject.State.ERASING, Subject.State.ERASED)
_RESTRICTED = Subject.State.RESTRICTED


def due_keys(now: datetime) -> QuerySet[Key]:
    """Return rows of keys whose instant has passed, the longest due first."""
    due = Key.objects.filter(expires_at__lte=now)
    return _writable(due).order_by("expires_at", "thread_id", "key")


def due_values(
    project: Project, *, grace: timedelta, now: datetime
) -> QuerySet[DueValue]:
    """Return a project's values whose time in history is over, the longest due first.

    Those of a subject that is held or restricted stay until it is not.
    """
    due = DueValue.objects.filter(project=project, due_at__lte=now - grace)
    return _erasable(due, now).order_by("due_at", "thread_id", "seq")


def iter_due_projects(
    now: datetime,
) -> Iterator[tuple[Project, timedelta, datetime]]:
    """(project, its grace, when its oldest value was due), by those that have any due.

    One statement, with one look into the index for each project that has a grace.
    """
    oldest = _erasable(DueValue.objects.filter(project=OuterRef("id")), now)
    rows = Project.objects.exclude(expired_value_grace_seconds=None).annotate(
        oldest=Subquery(oldest.order_by("due_at").values("due_at")[:1])
    )
    for row in rows.order_by("id"):
        grace = timedelta(seconds=row.expired_value_grace_seconds or 0)
        if row.oldest is not None and row.oldest + grace <= now:
            yield row, grace, row.oldest + grace


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Values that another grace would erase at once."""

    count: int
    #: There are more.
    capped: bool


def count_doomed(
    project: Project, *, grace_seconds: int | None, now: datetime
) -> Doomed:
    """Count what this grace erases at once that the project's own keeps. One query."""
    if grace_seconds is None:
        return Doomed(count=0, capped=False)
    rows = due_values(project, grace=timedelta(seconds=grace_seconds), now=now)
    if (saved := project.expired_value_grace_seconds) is not None:
        rows = rows.filter(due_at__gt=now - timedelta(seconds=saved))
    found = len(rows.values_list("seq")[: COUNTED + 1])
    return Doomed(count=min(found, COUNTED), capped=found > COUNTED)


def get_lag(now: datetime) -> timedelta:
    """Get how long the oldest key or value has been due. Two statements, by indexes."""
    oldest = [at for _, _, at in iter_due_projects(now)]
    key = due_keys(now).values_list("expires_at", flat=True).first()
    if key is not None:
        oldest.append(key)
    return now - min(oldest, default=now)


def _writable(rows: QuerySet[Row]) -> QuerySet[Row]:
    return rows.filter(thread__status__in=_WRITABLE).exclude(
        thread__subject__state__in=_FENCED
    )


def _erasable(rows: QuerySet[Row], now: datetime) -> QuerySet[Row]:
    """Narrow to those whose content may go: neither contested nor held."""
    rows = _writable(rows).exclude(thread__subject__state=_RESTRICTED)
    return rows.exclude(holds.standing("thread__subject", now=now))
