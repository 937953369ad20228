"""The fence: who may still be written for, checked in every write's transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Max

from memoryhub.errors import ProjectFullError
from memoryhub.journal import statements
from memoryhub.models.erasures import Hold
from memoryhub.models.projects import Project


@dataclass(frozen=True, slots=True)
class Fenced:
    """A subject as the fence sees it."""

    id: UUID
    state: str
    epoch: int
    #: Values that may not come back; without any nobody looks for one.
    tombstones: int


def hold(subjects: Collection[UUID]) -> dict[UUID, Fenced]:
    """Read these subjects so that none can be erased before we commit. One query.

    SQLite's writer is alone already; on PostgreSQL the rows are share-locked, in id
    order, and an eraser that wants them waits.
    """
    rows = statements.select_subjects(subjects) if subjects else []
    return {row[0]: Fenced(*row) for row in rows}


def held_until(subjects: Collection[UUID], *, at: datetime) -> dict[UUID, datetime]:
    """When the last hold on each of them ends, of those that are held. One query.

    Ask it after `hold`: who opens one locks the subject, so that it is seen, or waits.
    """
    rows = Hold.objects.filter(subject__in=subjects, lifted_at=None, expires_at__gt=at)
    last = rows.order_by().values("subject").annotate(last=Max("expires_at"))
    return dict(last.values_list("subject", "last"))


def count_thread(project: UUID) -> None:
    """Count one more thread of the project. Raises ProjectFullError at its limit."""
    room = Project.objects.filter(id=project, thread_count__lt=F("max_threads"))
    if not room.update(thread_count=F("thread_count") + 1):
        raise ProjectFullError
