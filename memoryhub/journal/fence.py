"""The fence: who may still be written for, checked in every write's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db import connection
from django.db.models import F

from memoryhub.errors import ProjectFullError
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject


def hold(subjects: Iterable[UUID]) -> dict[UUID, Subject]:
    """Read these subjects so that none can be erased before we commit. One query.

    SQLite's writer is alone already; on PostgreSQL the rows are share-locked, in id
    order, and an eraser that wants them waits.
    """
    rows = Subject.objects.filter(id__in=list(subjects)).order_by("id")
    rows = rows.only("id", "project_id", "state", "epoch")
    if connection.vendor != "postgresql":
        return {row.id: row for row in rows}
    # Django knows no FOR SHARE, so its own statement is sent with that at the end.
    sql, parameters = rows.query.sql_with_params()
    held = Subject.objects.raw(f"{sql} FOR SHARE", parameters)  # no client data
    return {row.id: row for row in held}


def count_thread(project: UUID) -> None:
    """Count one more thread of the project. Raises ProjectFullError at its limit."""
    room = Project.objects.filter(id=project, thread_count__lt=F("max_threads"))
    if not room.update(thread_count=F("thread_count") + 1):
        raise ProjectFullError
