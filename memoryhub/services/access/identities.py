"""Identities: the operator bound to each single sign-on subject of a provider.

Whoever runs commands binds an identity to an operator; no one becomes an operator by
signing in.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import audit
from memoryhub.models.access.operators import Identity, Operator
from memoryhub.models.server.clock import clock
from memoryhub.services.access.audit import COMMAND_ACTOR

#: Longest subject that OpenID Connect allows (Core 1.0, section 2).
MAX_SUBJECT = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderIdentity:
    """Identity that a single sign-on provider asserts for a sign-in."""

    issuer: str
    subject: str
    #: Whether the provider verified two factors.
    strong: bool


def find(identity: ProviderIdentity) -> Operator | None:
    """Find the active operator bound to this identity. One query."""
    if not _is_valid_subject(identity.subject):
        return None
    rows = Identity.objects.select_related("operator").filter(
        issuer=identity.issuer, subject=identity.subject, operator__is_active=True
    )
    return next((row.operator for row in rows), None)


def bind(
    operator: Operator, *, issuer: str, subject: str, actor: str = COMMAND_ACTOR
) -> None:
    """Bind the operator to this provider subject; a repeat changes nothing.

    Raises InvalidError: `subject` for an invalid subject, `subject_taken` when another
    operator has the subject.
    """
    if not _is_valid_subject(subject):
        raise InvalidError(code="subject", loc="sso")

    row = Identity(
        operator=operator, issuer=issuer, subject=subject, created_at=clock.now()
    )

    def insert() -> None:
        same = Identity.objects.filter(issuer=issuer, subject=subject)
        if same.filter(operator=operator).exists():
            return
        try:
            with transaction.atomic():
                row.save(force_insert=True)
                _audit_operator("operator.identity_bound", operator, actor=actor)
        except IntegrityError:
            raise InvalidError(code="subject_taken", loc="sso") from None

    journal.run(insert)


def remove_identities(operator: Operator, *, actor: str = COMMAND_ACTOR) -> bool:
    """Remove all of the operator's identities; returns whether any existed."""

    def delete() -> bool:
        """Delete the identities; return whether one existed."""
        with transaction.atomic():
            gone, _ = Identity.objects.filter(operator=operator).delete()
            if gone:
                _audit_operator("operator.identity_unbound", operator, actor=actor)
            return bool(gone)

    unbound: bool = journal.run(delete)
    return unbound


def _is_valid_subject(subject: str) -> bool:
    """Return whether the subject is printable ASCII of at most 255 characters."""
    short = 0 < len(subject) <= MAX_SUBJECT
    return short and subject.isascii() and subject.isprintable()


def _audit_operator(action: str, operator: Operator, *, actor: str) -> None:
    """Append an audit entry about the operator; call inside a transaction."""
    audit.append(
        actor=actor,
        action=action,
        project=None,
        target_kind="operator",
        target_id=str(operator.id),
    )
