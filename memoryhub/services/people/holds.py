"""Legal holds: while a hold is in force, nothing of its subject is erased.

An expired hold counts no more, whether or not anyone lifted the hold.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction

from memoryhub import journal
from memoryhub.errors import (
    ErasureInProgressError,
    InvalidError,
    NotFoundError,
)
from memoryhub.journal import audit
from memoryhub.journal.log import fence
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.erasures import Erasure, Hold
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.services.people import restrictions

#: Longest term of a hold; longer duties are reviewed and renewed.
MAX_TERM: Final = timedelta(days=365)
_REVIEWERS: Final = (Membership.Role.OFFICER, Membership.Role.OWNER)


def open_hold(
    subject: Subject,
    *,
    basis: str,
    reviewer: Operator,
    expires_at: datetime,
    actor: str,
) -> Hold:
    """Keep everything of the subject until the expiry, or until the hold is lifted.

    Raises InvalidError: an unknown basis, an expiry that is past or more than 365 days
    away, a reviewer who is no officer of the project. Raises SubjectErasedError, and
    ErasureInProgressError once an erasure of the subject is confirmed, which is final,
    as is ProjectDeletedError.
    """
    now = clock.now()
    if basis not in Hold.Basis.values:
        raise InvalidError(loc="basis")
    _require_expiry(expires_at, now=now)
    _require_reviewer(reviewer, subject.project_id)
    row = Hold(
        id=uuid7(),
        project_id=subject.project_id,
        subject_id=subject.id,
        basis=basis,
        opened_by=actor,
        reviewer=reviewer,
        opened_at=now,
        expires_at=expires_at,
    )
    made: Hold = journal.run(partial(_insert_hold, row, actor))
    return made


def renew_hold(hold: UUID, *, expires_at: datetime, actor: str) -> Hold:
    """Give a hold another expiry. Raises InvalidError, SubjectErasedError.

    Raises NotFoundError for a hold that was lifted or has expired: a hold not reviewed
    in time is opened anew.
    """
    _require_expiry(expires_at, now=clock.now())

    def change() -> Hold:
        with transaction.atomic():
            row = _require_in_force(hold)
            row.expires_at = expires_at
            row.save(update_fields=["expires_at"])
            _audit_hold(row, "hold.renewed", actor)
        return row

    renewed: Hold = journal.run(change)
    return renewed


def lift_hold(hold: UUID, *, actor: str) -> Hold:
    """End a hold. An erasure that the hold stopped is planned anew, not resumed.

    Raises NotFoundError for a hold that is not in force.
    """

    def change() -> Hold:
        with transaction.atomic():
            row = _require_in_force(hold)
            row.lifted_at, row.lifted_by = clock.now(), actor
            row.save(update_fields=["lifted_at", "lifted_by"])
            _audit_hold(row, "hold.lifted", actor)
        return row

    lifted: Hold = journal.run(change)
    return lifted


def _insert_hold(row: Hold, actor: str) -> Hold:
    """Insert the hold in a transaction; runs in the writer."""
    with transaction.atomic():
        # The lock orders this hold before or after a fence of the subject.
        restrictions.lock_subject(row.subject_id)
        # A deletion of the project has looked for holds already, or finds this hold.
        fence.require_active(row.project_id)
        _require_none_confirmed(row.subject_id)
        row.save(force_insert=True)
        _audit_hold(row, "hold.opened", actor)
    return row


def _require_none_confirmed(subject: UUID) -> None:
    """Raise ErasureInProgressError if an erasure is confirmed but not fenced yet.

    The ledger may contain such an erasure already.
    """
    planned = Erasure.objects.filter(subject=subject, state=Erasure.State.PLANNED)
    confirmed = planned.exclude(confirmed_at=None).first()
    if confirmed is not None:
        raise ErasureInProgressError(erasure=str(confirmed.id))


def _require_in_force(hold: UUID) -> Hold:
    """Get a hold in force, with its subject locked as by readers of holds.

    Raises NotFoundError.
    """
    row = Hold.objects.filter(id=hold).first()
    if row is None:
        raise NotFoundError
    restrictions.lock_subject(row.subject_id)
    row.refresh_from_db()
    if row.lifted_at is not None or row.expires_at <= clock.now():
        raise NotFoundError
    return row


def _require_expiry(expires_at: datetime, *, now: datetime) -> None:
    """Raise InvalidError unless the expiry is within the next 365 days."""
    if expires_at.tzinfo is None or expires_at > now + MAX_TERM:
        raise InvalidError(loc="expires_at")
    if expires_at <= now:
        raise InvalidError(code="expiry_in_past", loc="expires_at")


def _require_reviewer(reviewer: Operator, project: UUID) -> None:
    """Raise InvalidError unless the reviewer is an active officer or owner."""
    rows = Membership.objects.filter(project_id=project, operator=reviewer)
    officer = rows.filter(role__in=_REVIEWERS).exists()
    if not (officer and reviewer.is_active):
        raise InvalidError(loc="reviewer")


def _audit_hold(row: Hold, action: str, actor: str) -> None:
    """Append an audit entry about the hold; call inside a transaction."""
    audit.append(
        actor=actor,
        action=action,
        project=row.project_id,
        target_kind="hold",
        target_id=str(row.id),
        subject=row.subject_id,
    )
