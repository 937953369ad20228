"""Restrictions: agents may not use a subject's memory, and nothing of it changes.

Article 18 of the GDPR: memory that is contested, objected to or needed for a claim
stays as it is. Officers still view and export the memory.
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
#: Bases of restrictions by an erasure: until its plan is confirmed or expires, or while
#: a hold stops the erasure.
PLANNED, HELD = "erasure_planned", "erasure_held"


def restrict_subject(subject: UUID, *, basis: str, actor: str) -> Subject:
    """Keep agents from reading and writing; a repeat may change the basis.

    Raises SubjectErasedError, and InvalidError for an unknown basis.
    """
    require_basis(basis)
    changed: Subject = journal.run(partial(_restrict_locked, subject, basis, actor))
    return changed


async def restrict_subject_async(
    subject: UUID, *, basis: str, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Restrict as `restrict_subject` does, for coroutines.

    Raises InProgressError too.
    """
    require_basis(basis)
    work = partial(_restrict_locked, subject, basis, actor, request)
    changed: Subject = await journal.run_async(work)
    return changed


def unrestrict_subject(subject: UUID, *, actor: str) -> Subject:
    """Let agents in again; a repeat changes nothing.

    A restriction by an open erasure stays, until its plan is confirmed, cancelled or
    expires. Raises SubjectErasedError, and ErasureInProgressError if only such a
    restriction is in force.
    """
    changed: Subject = journal.run(partial(_unrestrict_locked, subject, actor))
    return changed


async def unrestrict_subject_async(
    subject: UUID, *, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Unrestrict as `unrestrict_subject` does, for coroutines.

    Raises InProgressError too.
    """
    work = partial(_unrestrict_locked, subject, actor, request)
    changed: Subject = await journal.run_async(work)
    return changed


def require_basis(basis: str) -> None:
    """Raise InvalidError for an unknown basis."""
    if basis not in BASES:
        raise InvalidError(loc="basis")


def _restrict_locked(
    subject: UUID, basis: str, actor: str, request: PersonRequest | None = None
) -> Subject:
    """Restrict the subject and audit a change; runs in the writer."""
    with transaction.atomic():
        row = lock_subject(subject)
        requests.claim(request, subject=row.id)
        if (row.state, row.basis) != (Subject.State.RESTRICTED, basis):
            _set_state(row, Subject.State.RESTRICTED, basis=basis)
            audit_act("subject.restricted", row.id, project=row.project_id, actor=actor)
    return row


def _unrestrict_locked(
    subject: UUID, actor: str, request: PersonRequest | None = None
) -> Subject:
    """End the officer's restriction and audit that; runs in the writer."""
    with transaction.atomic():
        row = lock_subject(subject)
        requests.claim(request, subject=row.id)
        if row.state != Subject.State.RESTRICTED:
            return row
        kept, erasure = _find_erasure_basis(row)
        if row.basis not in BASES and erasure:
            raise ErasureInProgressError(erasure=str(erasure.id))
        state = Subject.State.RESTRICTED if kept else Subject.State.ACTIVE
        _set_state(row, state, basis=kept)
        audit_act("subject.unrestricted", row.id, project=row.project_id, actor=actor)
    return row


def audit_act(action: str, subject: UUID, *, project: UUID, actor: str) -> None:
    """Append an audit entry about a subject, last in the transaction of the act."""
    audit.append(
        actor=actor,
        action=action,
        project=project,
        target_kind="subject",
        target_id=str(subject),
        subject=subject,
    )


def lock_subject(subject: UUID) -> Subject:
    """Lock the subject until the transaction ends.

    Raises SubjectErasedError.
    """
    row = Subject.objects.select_for_update().get(id=subject)
    require_subject(row)
    return row


def _find_erasure_basis(row: Subject) -> tuple[str, Erasure | None]:
    """Find the basis on which an open erasure restricts the subject, and the erasure.

    Empty and None if there is none.
    """
    rows = Erasure.objects.filter(subject=row)
    if held := rows.filter(state=Erasure.State.HELD).first():
        return HELD, held
    planned = rows.filter(state=Erasure.State.PLANNED)
    restricting = Q(restrict=True, expires_at__gt=clock.now())
    # A confirmed erasure may not be fenced yet, or not in all journals.
    begun = Q(scope=Erasure.Scope.SUBJECT) | Q(ledger_n__isnull=False)
    begun &= Q(confirmed_at__isnull=False)
    found = planned.filter(restricting | begun).first()
    return PLANNED if found else "", found


def _set_state(row: Subject, state: Subject.State, *, basis: str) -> None:
    """Save the subject's state and basis."""
    row.state, row.basis = state, basis
    row.save(update_fields=["state", "basis"])
