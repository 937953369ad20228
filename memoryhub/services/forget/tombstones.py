"""Lifting of a value's tombstone: the erased value may be written again."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import F

from memoryhub import journal
from memoryhub.errors import NotFoundError
from memoryhub.journal import audit
from memoryhub.models.erasures import Tombstone
from memoryhub.models.subjects import Subject
from memoryhub.services.people import restrictions


def lift_tombstone(tombstone: UUID, *, actor: str) -> None:
    """Let a value be written again; the erased value itself does not come back.

    Raises NotFoundError for thread names, which stay dead, and for subjects, which are
    readmitted instead.
    """
    journal.run(partial(_delete_tombstone, tombstone, actor))


def _delete_tombstone(tombstone: UUID, actor: str) -> None:
    """Delete the tombstone and audit that; runs in the writer."""
    with transaction.atomic():
        rows = Tombstone.objects.filter(id=tombstone, kind=Tombstone.Kind.VALUE)
        row = rows.first()
        if row is None:
            raise NotFoundError
        restrictions.lock_subject(row.subject_id)
        if not rows.delete()[0]:
            raise NotFoundError
        Subject.objects.filter(id=row.subject_id).update(tombstones=F("tombstones") - 1)
        audit.append(
            actor=actor,
            action="tombstone.lifted",
            project=row.project_id,
            target_kind="tombstone",
            target_id=str(row.id),
            subject=row.subject_id,
        )
