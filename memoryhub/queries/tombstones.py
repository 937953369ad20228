"""Tombstones: what was erased and must not come back, and which erasure says so.

Never writes. Nothing here tells what a tombstone keeps out: there are digests only.
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
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.vault.keys import blind_index, keys

_GONE = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneLine:
    """One tombstone: of what kind, whose, and which erasure laid it."""

    id: UUID
    subject: UUID
    kind: str
    #: Of a value: what it was of, as `page`, `key`, `task`; else empty.
    of: str
    erasure: UUID
    created_at: datetime


def require_subject(subject: Subject) -> None:
    """Raise SubjectErasedError, with erasure and receipt, if the subject is gone.

    No query while it is there, else two.
    """
    if subject.state in _GONE:
        raise SubjectErasedError(**_of_subject(subject))


def erased_thread(project: UUID, name: str) -> ThreadErasedError:
    """Return the refusal to read an erased thread, with erasure and receipt.

    Two queries.
    """
    stone = _of_thread(project, name)
    return ThreadErasedError(**(_detail(stone.erasure_id) if stone else {}))


def require_never_erased(
    project: UUID, names: Iterable[str], *, bound: UUID | None = None
) -> None:
    """Raise ThreadErasedError if a thread of such a name was erased. One query each.

    To who knows one subject alone, nothing of another was ever there.
    """
    for name in names:
        stone = _of_thread(project, name)
        if stone is not None and bound in (None, stone.subject_id):
            raise ThreadErasedError(**_detail(stone.erasure_id))


def get_tombstone(project: UUID, tombstone: UUID) -> TombstoneLine:
    """Return one of the project's. One query. Raises NotFoundError."""
    row = Tombstone.objects.filter(project_id=project, id=tombstone).first()
    if row is None:
        raise NotFoundError
    return _line(row)


def count_tombstones(project: UUID, *, subject: UUID | None = None) -> dict[str, int]:
    """Count those of each kind, kinds without any left out. One query."""
    rows = _rows(project, subject).order_by().values_list("kind")
    return dict(rows.annotate(Count("id")))


def list_tombstones(
    project: UUID,
    *,
    subject: UUID | None = None,
    kind: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Batch[TombstoneLine]:
    """List tombstones, newest first. One query.

    Raises BadCursorError when `after` is not of this very list.
    """
    filters = [str(subject), kind]
    listing = Listing(name="tombstones", project=project, filters=filters)
    rows = _rows(project, subject)
    if kind is not None:
        rows = rows.filter(kind=kind)
    return newest_first.part(rows, listing, line=_line, after=after, limit=limit)


def _rows(project: UUID, subject: UUID | None) -> QuerySet[Tombstone]:
    rows = Tombstone.objects.filter(project_id=project)
    return rows if subject is None else rows.filter(subject_id=subject)


def _line(row: Tombstone) -> TombstoneLine:
    return TombstoneLine(
        id=row.id,
        subject=row.subject_id,
        kind=row.kind,
        of=row.of,
        erasure=row.erasure_id,
        created_at=row.created_at,
    )


def _of_thread(project: UUID, name: str) -> Tombstone | None:
    digest = blind_index.thread_name(keys.project_key(project), name)
    rows = Tombstone.objects.filter(
        project_id=project, kind=Tombstone.Kind.THREAD, digest=digest
    )
    return rows.first()


def _of_subject(subject: Subject) -> Mapping[str, str]:
    rows = Erasure.objects.filter(
        project_id=subject.project_id,
        subject=subject,
        scope=Erasure.Scope.SUBJECT,
        confirmed_at__isnull=False,
    )
    erasure = rows.order_by("-created_at").values_list("id", flat=True).first()
    return {} if erasure is None else _detail(erasure)


def _detail(erasure: UUID) -> dict[str, str]:
    """Ids to ask for the proof by; the receipt's once there is one. One query."""
    rows = Receipt.objects.filter(erasure_id=erasure, n=0)
    receipt = rows.values_list("id", flat=True).first()
    detail = {"erasure": str(erasure)}
    return detail if receipt is None else {**detail, "receipt": str(receipt)}
