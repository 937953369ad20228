"""Deleting a project: each of its people is erased, then its key is destroyed.

Begun once, for good. Nothing begins in the project from then on, and whoever goes on
with it finds in the rows how far it is: kill -9 anywhere loses nothing. The project's
row, its audit log and all receipts stay, or nobody could prove what became of it.
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
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import project_deletions
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.forget.project_deletions import ACTOR
from memoryhub.services.access.audit import COMMAND
from memoryhub.services.forget import erasures, ledgers
from memoryhub.vault.keys import keys

State = Project.State
#: People whose erasures run at once: others of the hub are erased between them.
AT_ONCE: Final = 100


def begin(
    project: Project,
    *,
    confirmed: str,
    reason: str,
    ticket: str | None = None,
    actor: str = COMMAND,
) -> Project:
    """Begin to delete a project, of which `confirmed` repeats the slug; for good.

    Its API keys end with this, and nobody and nothing new comes in. Said twice it is
    the same. Raises InvalidError; SubjectHeldError with the number of `holds` while any
    is in force, and then nothing has changed.
    """
    if confirmed != project.slug:
        raise InvalidError(loc="confirmed")
    erasures.require_reason(reason, ticket)
    row: Project = journal.run(partial(_begin, project, reason, ticket, actor))
    return row


def take_back(
    project: Project, *, reason: str, ticket: str | None, actor: str
) -> Project:
    """Delete what a restored backup has made whole again, whatever it says of holds."""

    def change() -> Project:
        with transaction.atomic():
            row = _locked(project)
            if row.state == State.DELETED:
                # The key alone is back: it goes again with the last step.
                row.state = State.DELETING
                row.save(update_fields=["state"])
            elif row.state == State.ACTIVE:
                _enter(row, reason, ticket, actor)
        return row

    row: Project = journal.run(change)
    return row


def advance(project: Project) -> int:
    """Go on with what was begun: hand people in, or end it; how many steps it was.

    Said in the ledger before the first of them, so that a restored backup can't bring
    the project back. Raises LedgerUnwritableError.
    """
    row = Project.objects.get(id=project.id)
    if row.state != State.DELETING:
        return 0
    ledgers.intend_project(row)
    if project_deletions.unfinished(row).exists():
        return _hand_in(row)
    # Last of all that could be: whoever is erased needs it for its threads' names.
    keys.destroy_project_key(row.id, at=clock.now())
    ledgers.close_project(row)
    journal.run(partial(_end, row))
    return 1


def _begin(project: Project, reason: str, ticket: str | None, actor: str) -> Project:
    with transaction.atomic():
        row = _locked(project)
        if row.state != State.ACTIVE:
            return row
        # Whoever opens one reads the project's state under a lock of its own.
        held = project_deletions.holds(row, now=clock.now()).count()
        if held:
            raise SubjectHeldError(holds=held)
        _enter(row, reason, ticket, actor)
    return row


def _enter(row: Project, reason: str, ticket: str | None, actor: str) -> None:
    """Close the project, its API keys with it; call it in a transaction."""
    now = clock.now()
    row.state, row.deletion_at = State.DELETING, now
    row.deletion_reason, row.deletion_ticket = reason, ticket
    row.deletion_actor = actor
    row.save(
        update_fields=[
            *("state", "deletion_at", "deletion_reason", "deletion_ticket"),
            "deletion_actor",
        ]
    )
    live = ApiKey.objects.filter(project=row, revoked_at=None)
    prefixes = [*live.order_by("id").values_list("prefix", flat=True)]
    live.update(revoked_at=now)
    entry = partial(audit.Entry, actor=actor, project=row.id)
    people = project_deletions.unfinished(row).count()
    begun = entry(
        action="project.deletion_begun",
        target_kind="project",
        target_id=str(row.id),
        count=people,
    )
    revoked = partial(entry, action="api_key.revoked", target_kind="api_key")
    audit.append_all([*(revoked(target_id=each) for each in prefixes), begun])


def _hand_in(row: Project) -> int:
    """Have the next people erased, so that no more than AT_ONCE are under way."""
    under_way = project_deletions.open_erasures(row).exclude(confirmed_at=None)
    room, begun = max(0, AT_ONCE - under_way.count()), 0
    for subject in project_deletions.waiting(row)[:room]:
        # Whatever is refused here is looked at again in a moment.
        with suppress(Refusal):
            _erase(subject, row)
            begun += 1
    return begun


def _erase(subject: Subject, project: Project) -> None:
    """Plan and confirm; a plan of ours that nobody lived to confirm is confirmed."""
    planned = project_deletions.open_erasures(project).filter(subject=subject)
    row = planned.first() or erasures.plan(
        subject,
        scope=Erasure.Scope.SUBJECT,
        reason=project.deletion_reason,
        ticket=project.deletion_ticket,
        actor=ACTOR,
    )
    count = ErasureLine.of(row).count
    erasures.confirm(row, token=erasures.token(row), count=count, actor=ACTOR)


def _end(project: Project) -> None:
    with transaction.atomic():
        row = _locked(project)
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


def _locked(project: Project) -> Project:
    """Its row: nobody and no thread comes in, and no role changes, until we commit."""
    return Project.objects.select_for_update(no_key=True).get(id=project.id)
