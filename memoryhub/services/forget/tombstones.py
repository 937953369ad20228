"""Tombstones of values, lifted: what was erased may be written again."""

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


def lift(tombstone: UUID, *, actor: str) -> None:
    """Let a value be written again. It does not come back by itself: it is erased.

    Names of threads stay dead, and a person is readmitted instead: NotFoundError.
    """
    journal.run(partial(_lift, tombstone, actor))


def _lift(tombstone: UUID, actor: str) -> None:
    with transaction.atomic():
        rows = Tombstone.objects.filter(id=tombstone, kind=Tombstone.Kind.VALUE)
        row = rows.first()
        if row is None:
            raise NotFoundError
        restrictions.locked(row.subject_id)
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
