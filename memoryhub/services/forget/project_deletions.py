"""Project deletion: each subject is erased, then the project's key is destroyed.

A deletion is begun once, for good. Nothing new begins in the project from then on, and
the rows show how far the deletion is: a crash loses nothing. The project's row, its
audit log and all receipts stay, as proof of the deletion. See decision 34.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from django.db import transaction

from memoryhub import journal
from memoryhub.errors import InvalidError, Refusal, SubjectHeldError
from memoryhub.journal import audit
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.alerts import Alert, AlertSilence
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.webhooks import Webhook
from memoryhub.queries.forget import project_deletions
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.forget.project_deletions import ACTOR
from memoryhub.services.access import webhooks
from memoryhub.services.access.audit import COMMAND_ACTOR
from memoryhub.services.forget import erasures, ledgers
from memoryhub.vault.keys import keys

State = Project.State
#: Erasures run at once, so that other projects' erasures run in between.
AT_ONCE: Final = 100


def begin_deletion(
    project: Project,
    *,
    confirmed: str,
    reason: str,
    ticket: str | None = None,
    actor: str = COMMAND_ACTOR,
) -> Project:
    """Begin to delete a project for good; `confirmed` must repeat its slug.

    The project's API keys end, and nothing new can enter. A repeat returns the same
    row. Raises InvalidError; SubjectHeldError with the number of `holds` while any hold
    is in force, and then nothing has changed.
    """
    if confirmed != project.slug:
        raise InvalidError(loc="confirmed")
    erasures.require_reason(reason, ticket)
    row: Project = journal.run(partial(_begin_locked, project, reason, ticket, actor))
    return row


def redo_deletion(
    project: Project, *, reason: str, ticket: str | None, actor: str
) -> Project:
    """Delete a project that a restored backup brought back, despite its holds."""

    def change() -> Project:
        with transaction.atomic():
            row = _lock_project(project)
            if row.state == State.DELETED:
                # Only the key is back: the last step destroys it again.
                row.state = State.DELETING
                row.save(update_fields=["state"])
            elif row.state == State.ACTIVE:
                _close_project(row, reason, ticket, actor)
        return row

    row: Project = journal.run(change)
    return row


def advance_deletion(project: Project) -> int:
    """Advance a deletion: begin erasures, or end it; returns the number of steps.

    The ledger records the deletion before the first erasure, so that a restored backup
    can't bring the project back. Raises LedgerUnwritableError.
    """
    row = Project.objects.get(id=project.id)
    if row.state != State.DELETING:
        return 0
    ledgers.record_project_intent(row)
    if project_deletions.select_unfinished(row).exists():
        return _begin_erasures(row)
    # Destroy the key last: erasures need the key for the digests of thread names.
    keys.destroy_project_key(row.id, at=clock.now())
    ledgers.record_project_completion(row)
    journal.run(partial(_mark_deleted, row))
    return 1


def _begin_locked(
    project: Project, reason: str, ticket: str | None, actor: str
) -> Project:
    """Begin the deletion under lock. Raises SubjectHeldError."""
    with transaction.atomic():
        row = _lock_project(project)
        if row.state != State.ACTIVE:
            return row
        # A hold that is being opened reads the project's state under its own lock.
        held = project_deletions.select_holds(row, now=clock.now()).count()
        if held:
            raise SubjectHeldError(holds=held)
        _close_project(row, reason, ticket, actor)
    return row


def _close_project(row: Project, reason: str, ticket: str | None, actor: str) -> None:
    """Close the project, revoke its API keys, delete webhooks and alerts.

    Call inside a transaction.
    """
    now = clock.now()
    row.state, row.deletion_at = State.DELETING, now
    row.deletion_reason, row.deletion_ticket = reason, ticket
    row.deletion_actor, row.has_webhooks, row.alert_mail = actor, False, ""
    row.save(
        update_fields=[
            *("state", "deletion_at", "deletion_reason", "deletion_ticket"),
            *("deletion_actor", "has_webhooks", "alert_mail"),
        ]
    )
    live = ApiKey.objects.filter(project=row, revoked_at=None)
    prefixes = [*live.order_by("id").values_list("prefix", flat=True)]
    live.update(revoked_at=now)
    hooks = [*Webhook.objects.filter(project=row).values_list("id", flat=True)]
    webhooks.delete_rows(hooks)
    Alert.objects.filter(project=row).delete()
    AlertSilence.objects.filter(project=row).delete()
    entry = partial(audit.AuditNote, actor=actor, project=row.id)
    people = project_deletions.select_unfinished(row).count()
    begun = entry(
        action="project.deletion_begun",
        target_kind="project",
        target_id=str(row.id),
        count=people,
    )
    revoked = partial(entry, action="api_key.revoked", target_kind="api_key")
    ended = partial(entry, action="webhook.deleted", target_kind="webhook")
    audit.append_all(
        [
            *(revoked(target_id=each) for each in prefixes),
            *(ended(target_id=str(each)) for each in hooks),
            begun,
        ]
    )


def _begin_erasures(row: Project) -> int:
    """Begin the next erasures, so that at most AT_ONCE are under way."""
    under_way = project_deletions.select_open_erasures(row).exclude(confirmed_at=None)
    room, begun = max(0, AT_ONCE - under_way.count()), 0
    for subject in project_deletions.select_waiting(row)[:room]:
        # A refused erasure is tried again in the next round.
        with suppress(Refusal):
            _erase_subject(subject, row)
            begun += 1
    return begun


def _erase_subject(subject: Subject, project: Project) -> None:
    """Plan and confirm an erasure; an open plan of this deletion is confirmed."""
    planned = project_deletions.select_open_erasures(project).filter(subject=subject)
    row = planned.first() or erasures.plan(
        subject,
        scope=Erasure.Scope.SUBJECT,
        reason=project.deletion_reason,
        ticket=project.deletion_ticket,
        actor=ACTOR,
    )
    count = ErasureLine.from_row(row).count
    erasures.confirm(row, token=erasures.build_token(row), count=count, actor=ACTOR)


def _mark_deleted(project: Project) -> None:
    """Mark the project as deleted and audit that."""
    with transaction.atomic():
        row = _lock_project(project)
        if row.state == State.DELETED:
            return
        row.state, row.deleted_at = State.DELETED, clock.now()
        row.save(update_fields=["state", "deleted_at"])
        audit.append(
            actor=ACTOR,
            action="project.deleted",
            project=row.id,
            target_kind="project",
            target_id=str(row.id),
        )


def _lock_project(project: Project) -> Project:
    """Lock the project's row: no subject, thread or role changes until the commit."""
    return Project.objects.select_for_update(no_key=True).get(id=project.id)
