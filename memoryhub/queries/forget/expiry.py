"""Expired keys to sweep and old values to erase, and since when due. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import Min, Model, Q, QuerySet

from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.queries.forget import holds

Row = TypeVar("Row", bound=Model)

#: Most values that are counted.
COUNTED = 10_000
#: States of threads that take a worker's commands.
_WRITABLE = (Thread.Status.OPEN, Thread.Status.CLOSED)
_FENCED = (Subject.State.ERASING, Subject.State.ERASED)
_RESTRICTED = Subject.State.RESTRICTED


def select_due_keys(now: datetime) -> QuerySet[Key]:
    """Select keys whose expiry has passed, the longest due first."""
    due = Key.objects.filter(expires_at__lte=now)
    return _filter_writable(due).order_by("expires_at", "thread_id", "key")


def select_due_values(
    project: Project, *, grace: timedelta, now: datetime
) -> QuerySet[DueValue]:
    """Select a project's values whose grace in history is over, the longest due first.

    Leaves out values of subjects that are held or restricted.
    """
    due = DueValue.objects.filter(project=project, due_at__lte=now - grace)
    blocked = _select_blocked([project], now)
    return due.exclude(thread__in=blocked).order_by("due_at", "thread_id", "seq")


def iter_due_projects(
    now: datetime,
) -> Iterator[tuple[Project, timedelta, datetime]]:
    """Yield (project, its grace, when its oldest value was due) of projects with one.

    Two statements; the second reads all values that are due.
    """
    rows = Project.objects.exclude(expired_value_grace_seconds=None).order_by("id")
    graces = {
        row: timedelta(seconds=row.expired_value_grace_seconds or 0) for row in rows
    }
    if not graces:
        return
    due = Q()
    for row, grace in graces.items():
        due |= Q(project=row, due_at__lte=now - grace)
    blocked = _select_blocked(graces, now)
    values = DueValue.objects.filter(due).exclude(thread__in=blocked)
    oldest = dict(values.order_by().values_list("project").annotate(at=Min("due_at")))
    for row, grace in graces.items():
        if row.id in oldest:
            yield row, grace, oldest[row.id] + grace


@dataclass(frozen=True, slots=True, kw_only=True)
class DoomedValues:
    """Count of the values that another grace would erase at once."""

    count: int
    #: Whether there are more values than were counted.
    capped: bool


def count_doomed(
    project: Project, *, grace_seconds: int | None, now: datetime
) -> DoomedValues:
    """Count values that this grace would erase and the project's grace keeps.

    One query.
    """
    if grace_seconds is None:
        return DoomedValues(count=0, capped=False)
    rows = select_due_values(project, grace=timedelta(seconds=grace_seconds), now=now)
    if (saved := project.expired_value_grace_seconds) is not None:
        rows = rows.filter(due_at__gt=now - timedelta(seconds=saved))
    found = len(rows.values_list("seq")[: COUNTED + 1])
    return DoomedValues(count=min(found, COUNTED), capped=found > COUNTED)


def get_lag(now: datetime) -> timedelta:
    """Get how long the oldest key or value has been due. Three statements."""
    oldest = [at for _, _, at in iter_due_projects(now)]
    key = select_due_keys(now).values_list("expires_at", flat=True).first()
    if key is not None:
        oldest.append(key)
    return now - min(oldest, default=now)


def _filter_writable(rows: QuerySet[Row]) -> QuerySet[Row]:
    return rows.filter(thread__status__in=_WRITABLE).exclude(
        thread__subject__state__in=_FENCED
    )


def _select_blocked(projects: Iterable[Project], now: datetime) -> QuerySet[Any, Any]:
    """Select the ids of threads whose due values must stay for now.

    Ended threads have no such values. A query of its own, since a cluster keeps the
    values apart from the threads.
    """
    threads = Thread.objects.filter(project__in=[*projects])
    kept = Q(subject__state__in=(*_FENCED, _RESTRICTED))
    kept |= Q(holds.match_in_force("subject", now=now))
    blocked = Q(status=Thread.Status.IMPORTING) | Q(kept, status__in=_WRITABLE)
    return threads.filter(blocked).values("id")
