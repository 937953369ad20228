"""Identities: which operator a provider of single sign-on means by a subject.

Whoever runs commands binds them; nobody becomes an operator by signing in.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import audit
from memoryhub.models.access.operators import Identity, Operator
from memoryhub.models.server.clock import clock
from memoryhub.services.access.audit import COMMAND

#: What OpenID Connect allows a subject (Core 1.0, section 2).
MAX_SUBJECT = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderIdentity:
    """Whom a provider says it has before it."""

    issuer: str
    subject: str
    #: It made sure by two factors.
    strong: bool


def find(identity: ProviderIdentity) -> Operator | None:
    """Find the bound operator of this identity, if not disabled. One query."""
    if not _valid(identity.subject):
        return None
    rows = Identity.objects.select_related("operator").filter(
        issuer=identity.issuer, subject=identity.subject, operator__is_active=True
    )
    return next((row.operator for row in rows), None)


def bind(
    operator: Operator, *, issuer: str, subject: str, actor: str = COMMAND
) -> None:
    """Let the operator in as this subject; again changes nothing.

    Raises InvalidError: `subject` for what can be none, `subject_taken` when it is
    another operator's.
    """
    if not _valid(subject):
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
                _note("operator.identity_bound", operator, actor=actor)
        except IntegrityError:
            raise InvalidError(code="subject_taken", loc="sso") from None

    journal.run(insert)


def unbind(operator: Operator, *, actor: str = COMMAND) -> bool:
    """Let the operator in as no subject any more; whether there was one."""

    def delete() -> bool:
        with transaction.atomic():
            gone, _ = Identity.objects.filter(operator=operator).delete()
            if gone:
                _note("operator.identity_unbound", operator, actor=actor)
            return bool(gone)

    unbound: bool = journal.run(delete)
    return unbound


def _valid(subject: str) -> bool:
    short = 0 < len(subject) <= MAX_SUBJECT
    return short and subject.isascii() and subject.isprintable()


def _note(action: str, operator: Operator, *, actor: str) -> None:
    audit.append(
        actor=actor,
        action=action,
        project=None,
        target_kind="operator",
        target_id=str(operator.id),
    )
