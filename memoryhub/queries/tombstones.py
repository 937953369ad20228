"""Tombstones: records of erased data that must not return, with their erasures.

Never writes. A tombstone reveals nothing of the erased data: it holds digests only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, QuerySet

from memoryhub.errors import NotFoundError, SubjectErasedError, ThreadErasedError
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.subjects import Subject
from memoryhub.queries.lists import newest_first
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.vault.keys import blind_index, keys

_GONE = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneLine:
    """A tombstone in a list: its kind, its subject, and its erasure."""

    id: UUID
    subject: UUID
    kind: str
    #: Kind of the erased value, as `page`, `key`, `task`; empty for other tombstones.
    of: str
    erasure: UUID
    created_at: datetime


def require_subject(subject: Subject) -> None:
    """Raise SubjectErasedError, with erasure and receipt, if the subject is erased.

    No query for a readable subject, else two. A subject under erasure counts as erased.
    """
    if subject.state in _GONE:
        raise SubjectErasedError(**_build_subject_detail(subject))


def build_erased_error(project: UUID, name: str) -> ThreadErasedError:
    """Build the error for a read of an erased thread, with erasure and receipt.

    Two queries.
    """
    stone = _find_of_thread(project, name)
    return ThreadErasedError(**(_build_detail(stone.erasure_id) if stone else {}))


def require_never_erased(
    project: UUID, names: Iterable[str], *, bound: UUID | None = None
) -> None:
    """Raise ThreadErasedError if a thread of such a name was erased. One query each.

    A caller bound to one subject never learns of another subject's tombstones.
    """
    for name in names:
        stone = _find_of_thread(project, name)
        if stone is not None and bound in (None, stone.subject_id):
            raise ThreadErasedError(**_build_detail(stone.erasure_id))


def get_tombstone(project: UUID, tombstone: UUID) -> TombstoneLine:
    """Return one of the project's tombstones. One query. Raises NotFoundError."""
    row = Tombstone.objects.filter(project_id=project, id=tombstone).first()
    if row is None:
        raise NotFoundError
    return _build_line(row)


def count_tombstones(project: UUID, *, subject: UUID | None = None) -> dict[str, int]:
    """Count tombstones by kind; absent kinds are left out. One query."""
    rows = _filter_rows(project, subject).order_by().values_list("kind")
    return dict(rows.annotate(Count("id")))


def list_tombstones(
    project: UUID,
    *,
    subject: UUID | None = None,
    kind: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[TombstoneLine]:
    """List tombstones, newest first. One query.

    Raises BadCursorError when `after` is not a cursor of this very list.
    """
    filters = [str(subject), kind]
    listing = ListScope(name="tombstones", project=project, filters=filters)
    rows = _filter_rows(project, subject)
    if kind is not None:
        rows = rows.filter(kind=kind)
    return newest_first.list_batch(
        rows, listing, line=_build_line, after=after, limit=limit
    )


def _filter_rows(project: UUID, subject: UUID | None) -> QuerySet[Tombstone]:
    rows = Tombstone.objects.filter(project_id=project)
    return rows if subject is None else rows.filter(subject_id=subject)


def _build_line(row: Tombstone) -> TombstoneLine:
    return TombstoneLine(
        id=row.id,
        subject=row.subject_id,
        kind=row.kind,
        of=row.of,
        erasure=row.erasure_id,
        created_at=row.created_at,
    )


def _find_of_thread(project: UUID, name: str) -> Tombstone | None:
    digest = blind_index.digest_thread_name(keys.get_project_key(project), name)
    rows = Tombstone.objects.filter(
        project_id=project, kind=Tombstone.Kind.THREAD, digest=digest
    )
    return rows.first()


def _build_subject_detail(subject: Subject) -> Mapping[str, str]:
    rows = Erasure.objects.filter(
        project_id=subject.project_id,
        subject=subject,
        scope=Erasure.Scope.SUBJECT,
        confirmed_at__isnull=False,
    )
    erasure = rows.order_by("-created_at").values_list("id", flat=True).first()
    return {} if erasure is None else _build_detail(erasure)


def _build_detail(erasure: UUID) -> dict[str, str]:
    """Return the ids of an erasure and, once it exists, its receipt. One query."""
    rows = Receipt.objects.filter(erasure_id=erasure, n=0)
    receipt = rows.values_list("id", flat=True).first()
    detail = {"erasure": str(erasure)}
    return detail if receipt is None else {**detail, "receipt": str(receipt)}
