"""The fence: a check in every write's transaction of its subject's state."""

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
class FencedSubject:
    """A subject as the fence sees it."""

    id: UUID
    state: str
    epoch: int
    #: Number of tombstones of values; with 0 no write looks for one.
    tombstones: int
    #: State of the subject's project; only the eraser writes in a deleted project.
    project_state: str
    #: Whether the project has webhooks.
    has_webhooks: bool

    def require_project(self) -> None:
        """Raise ProjectDeletedError if the project is being deleted, or was."""
        if self.project_state != Project.State.ACTIVE:
            raise ProjectDeletedError


def hold(subjects: Collection[UUID]) -> dict[UUID, FencedSubject]:
    """Read these subjects so that nobody can erase them before we commit. One query.

    SQLite has only one writer. PostgreSQL share-locks the rows in id order, and an
    eraser that wants them waits.
    """
    rows = statements.select_subjects(subjects) if subjects else []
    return {row[0]: FencedSubject(*row) for row in rows}


def list_hold_ends(subjects: Collection[UUID], *, at: datetime) -> dict[UUID, datetime]:
    """Return the end of the last legal hold by subject, for each subject that is held.

    One query. Call it after `hold`: a transaction that opens a legal hold locks the
    subject, so it is either seen here or waits.
    """
    rows = Hold.objects.filter(subject__in=subjects, lifted_at=None, expires_at__gt=at)
    last = rows.order_by().values("subject").annotate(last=Max("expires_at"))
    return dict(last.values_list("subject", "last"))


def count_thread(project: UUID) -> None:
    """Count one more thread of the project. Raises ProjectFullError at its limit.

    Raises ProjectDeletedError if the project is being deleted. The start of a deletion
    updates the same row, so a thread is made before the deletion, or not at all.
    """
    rows = Project.objects.filter(id=project, state=Project.State.ACTIVE)
    room = rows.filter(thread_count__lt=F("max_threads"))
    if not room.update(thread_count=F("thread_count") + 1):
        require_active(project)
        limit = Project.objects.values_list("max_threads", flat=True).get(id=project)
        raise ProjectFullError(max_threads=limit)


def require_own_name(address: Address, name: str, subject: UUID) -> None:
    """Raise InvalidError if a new thread of the subject can't be stored by that name.

    A name is refused if it is too long once the subject's id stands before it, if it
    begins with the id of another subject, or if it begins like the name of a home
    thread. Otherwise a refusal could reveal the names of another subject's threads. See
    decision 38.
    """
    where = "name" if address.fresh else "path.thread"
    if address.called and not names.is_valid(name):
        raise InvalidError(code="name", loc=where)
    if address.name.startswith(names.HOME) and not address.home:
        raise InvalidError(code="reserved_name", loc=where)
    owner = names.find_owner(name)
    if owner is None or owner == subject:
        return
    if Subject.objects.filter(project_id=address.project, id=owner).exists():
        raise InvalidError(code="reserved_name", loc=where)


def require_active(project: UUID) -> None:
    """Raise ProjectDeletedError if the project is being deleted, or was. One query.

    In a transaction the answer holds until its end: PostgreSQL share-locks the row, and
    a transaction that begins the deletion waits.
    """
    if statements.select_project_state(project) != Project.State.ACTIVE:
        raise ProjectDeletedError
