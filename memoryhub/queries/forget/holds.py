"""Legal holds, which forbid erasing a subject's memory until they end. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from memoryhub.errors import NotFoundError
from memoryhub.models.erasures import Hold
from memoryhub.queries.lists import newest_first
from memoryhub.queries.lists.cursors import ListBatch, ListScope


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLine:
    """One legal hold. `in_force` is as of the time of the query."""

    id: UUID
    subject: UUID
    basis: str
    #: `operator:<id>` or `command`.
    opened_by: str
    #: Name of the operator who reviews the hold; None once the operator is deleted.
    reviewer: str | None
    opened_at: datetime
    expires_at: datetime
    lifted_at: datetime | None
    lifted_by: str | None
    in_force: bool


def select_in_force(subject: UUID, *, now: datetime) -> QuerySet[Hold]:
    """Select the holds in force that forbid erasing anything of the subject."""
    rows = Hold.objects.filter(subject_id=subject, lifted_at=None)
    return rows.filter(expires_at__gt=now)


def match_in_force(subject: str, *, now: datetime) -> Exists:
    """Match rows whose subject, named by this column, has a hold in force."""
    rows = Hold.objects.filter(subject=OuterRef(subject), lifted_at=None)
    return Exists(rows.filter(expires_at__gt=now))


def get_hold(project: UUID, hold: UUID, *, now: datetime) -> HoldLine:
    """Return a hold of the project. One query. Raises NotFoundError."""
    row = Hold.objects.select_related("reviewer")
    found = row.filter(project_id=project, id=hold).first()
    if found is None:
        raise NotFoundError
    return _build_line(found, now)


def list_subject_holds(subject: UUID, *, now: datetime) -> tuple[HoldLine, ...]:
    """List all holds of a subject, past ones too, newest first. One query."""
    rows = Hold.objects.filter(subject_id=subject).select_related("reviewer")
    return tuple(_build_line(row, now) for row in rows.order_by("-opened_at", "id"))


def list_holds(
    project: UUID,
    *,
    now: datetime,
    open_only: bool = False,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[HoldLine]:
    """List holds of a project, newest first. One query.

    Raises BadCursorError when the cursor `after` belongs to another list.
    """
    listing = ListScope(name="holds", project=project, filters=[open_only])
    rows = Hold.objects.filter(project_id=project).select_related("reviewer")
    if open_only:
        rows = rows.filter(lifted_at=None, expires_at__gt=now)
    return newest_first.list_batch(
        rows,
        listing,
        line=lambda row: _build_line(row, now),
        after=after,
        limit=limit,
        at="opened_at",
    )


def _build_line(row: Hold, now: datetime) -> HoldLine:
    return HoldLine(
        id=row.id,
        subject=row.subject_id,
        basis=row.basis,
        opened_by=row.opened_by,
        reviewer=row.reviewer.username if row.reviewer else None,
        opened_at=row.opened_at,
        expires_at=row.expires_at,
        lifted_at=row.lifted_at,
        lifted_by=row.lifted_by or None,
        in_force=row.lifted_at is None and row.expires_at > now,
    )
