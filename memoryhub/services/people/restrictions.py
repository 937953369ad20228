"""Restrictions: agents are kept out of a person's memory while nothing of it changes.

Article 18 of the GDPR: what is contested, objected to or needed for a claim stays as it
is. Officers still view and export it.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from memoryhub import journal
from memoryhub.errors import ErasureInProgressError, InvalidError
from memoryhub.journal import audit
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.tombstones import require_subject

BASES: Final = (
    "accuracy_contested",
    "unlawful_objected",
    "claims",
    "objection_pending",
)
#: What an erasure restricts a subject for: until its plan is confirmed or expires, or
#: while a hold stands against it.
PLANNED, HELD = "erasure_planned", "erasure_held"


def restrict(subject: UUID, *, basis: str, actor: str) -> Subject:
    """Keep agents out, reading and writing; a repeat may change the basis.

    Raises SubjectErasedError, InvalidError for a basis that is none.
    """
    require_basis(basis)
    changed: Subject = journal.run(partial(_restrict, subject, basis, actor))
    return changed


async def restrict_async(
    subject: UUID, *, basis: str, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Restrict as `restrict` does, for coroutines. Raises InProgressError too."""
    require_basis(basis)
    work = partial(_restrict, subject, basis, actor, request)
    changed: Subject = await journal.run_async(work)
    return changed


def unrestrict(subject: UUID, *, actor: str) -> Subject:
    """Let agents in again; a repeat changes nothing.

    What an open erasure restricts stays so, until its plan is confirmed, cancelled or
    expires. Raises SubjectErasedError, and ErasureInProgressError if there is nothing
    but that to lift.
    """
    changed: Subject = journal.run(partial(_unrestrict, subject, actor))
    return changed


async def unrestrict_async(
    subject: UUID, *, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Lift as `unrestrict` does, for coroutines. Raises InProgressError too."""
    work = partial(_unrestrict, subject, actor, request)
    changed: Subject = await journal.run_async(work)
    return changed


def require_basis(basis: str) -> None:
    """Raise InvalidError for a word that is no basis."""
    if basis not in BASES:
        raise InvalidError(loc="basis")


def _restrict(
    subject: UUID, basis: str, actor: str, request: PersonRequest | None = None
) -> Subject:
    with transaction.atomic():
        row = locked(subject)
        requests.claim(request, subject=row.id)
        if (row.state, row.basis) != (Subject.State.RESTRICTED, basis):
            _change(row, Subject.State.RESTRICTED, basis=basis)
            audit_act("subject.restricted", row.id, project=row.project_id, actor=actor)
    return row


def _unrestrict(
    subject: UUID, actor: str, request: PersonRequest | None = None
) -> Subject:
    with transaction.atomic():
        row = locked(subject)
        requests.claim(request, subject=row.id)
        if row.state != Subject.State.RESTRICTED:
            return row
        kept = _kept_by(row)
        if row.basis not in BASES and kept:
            raise ErasureInProgressError
        state = Subject.State.RESTRICTED if kept else Subject.State.ACTIVE
        _change(row, state, basis=kept)
        audit_act("subject.unrestricted", row.id, project=row.project_id, actor=actor)
    return row


def audit_act(action: str, subject: UUID, *, project: UUID, actor: str) -> None:
    """Note an act in the audit log, last in the transaction that does it."""
    audit.append(
        actor=actor,
        action=action,
        project=project,
        target_kind="subject",
        target_id=str(subject),
        subject=subject,
    )


def locked(subject: UUID) -> Subject:
    """Lock the subject until the transaction ends.

    Raises SubjectErasedError.
    """
    row = Subject.objects.select_for_update().get(id=subject)
    require_subject(row)
    return row


def _kept_by(row: Subject) -> str:
    """What an open erasure restricts it for; empty if none does."""
    rows = Erasure.objects.filter(subject=row)
    if rows.filter(state=Erasure.State.HELD).exists():
        return HELD
    planned = rows.filter(state=Erasure.State.PLANNED)
    restricting = Q(restrict=True, expires_at__gt=clock.now())
    # One that was confirmed is not fenced yet, or not in all of its journals.
    begun = Q(scope=Erasure.Scope.SUBJECT) | Q(ledger_n__isnull=False)
    begun &= Q(confirmed_at__isnull=False)
    return PLANNED if planned.filter(restricting | begun).exists() else ""


def _change(row: Subject, state: Subject.State, *, basis: str) -> None:
    row.state, row.basis = state, basis
    row.save(update_fields=["state", "basis"])
