"""The fence: who may still be written for, checked in every write's transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Max

from memoryhub.errors import InvalidError, ProjectDeletedError, ProjectFullError
from memoryhub.journal.log.orders import Address
from memoryhub.journal.rows import statements
from memoryhub.kernel.text import names
from memoryhub.models.erasures import Hold
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject


@dataclass(frozen=True, slots=True)
class Fenced:
    """A subject as the fence sees it."""

    id: UUID
    state: str
    epoch: int
    #: Values that may not come back; without any nobody looks for one.
    tombstones: int
    #: Of its project; in one that is deleted only the eraser writes.
    project_state: str

    def require_project(self) -> None:
        """Raise ProjectDeletedError if its project goes, or is gone."""
        if self.project_state != Project.State.ACTIVE:
            raise ProjectDeletedError


def hold(subjects: Collection[UUID]) -> dict[UUID, Fenced]:
    """Read these subjects so that none can be erased before we commit. One query.

    SQLite's writer is alone already; on PostgreSQL the rows are share-locked, in id
    order, and an eraser that wants them waits.
    """
    rows = statements.select_subjects(subjects) if subjects else []
    return {row[0]: Fenced(*row) for row in rows}


def held_until(subjects: Collection[UUID], *, at: datetime) -> dict[UUID, datetime]:
    """Return when the last hold ends, for each of these subjects that is held.

    One query. Ask it after `hold`: who opens one locks the subject, so that it is seen,
    or waits.
    """
    rows = Hold.objects.filter(subject__in=subjects, lifted_at=None, expires_at__gt=at)
    last = rows.order_by().values("subject").annotate(last=Max("expires_at"))
    return dict(last.values_list("subject", "last"))


def count_thread(project: UUID) -> None:
    """Count one more thread of the project. Raises ProjectFullError at its limit.

    Raises ProjectDeletedError if it is being deleted: who begins that moves the same
    row, so that a thread is made before it, or not at all.
    """
    rows = Project.objects.filter(id=project, state=Project.State.ACTIVE)
    room = rows.filter(thread_count__lt=F("max_threads"))
    if not room.update(thread_count=F("thread_count") + 1):
        require_active(project)
        limit = Project.objects.values_list("max_threads", flat=True).get(id=project)
        raise ProjectFullError(max_threads=limit)


def require_own_name(address: Address, name: str, subject: UUID) -> None:
    """Raise InvalidError if a new thread of the subject can't be stored by that name.

    It is too long with the subject's id before it, or it begins with the id of another:
    else who makes those could tell from a refusal what others call their threads. Or it
    begins as those of home threads do.
    """
    where = "name" if address.fresh else "path.thread"
    if address.called and not names.valid(name):
        raise InvalidError(code="name", loc=where)
    if address.name.startswith(names.HOME) and not address.home:
        raise InvalidError(code="reserved_name", loc=where)
    owner = names.owner(name)
    if owner is None or owner == subject:
        return
    if Subject.objects.filter(project_id=address.project, id=owner).exists():
        raise InvalidError(code="reserved_name", loc=where)


def require_active(project: UUID) -> None:
    """Raise ProjectDeletedError if the project is being deleted, or was. One query.

    In a transaction the answer holds until its end: on PostgreSQL the row is
    share-locked, and who begins to delete it waits.
    """
    if statements.select_project_state(project) != Project.State.ACTIVE:
        raise ProjectDeletedError
