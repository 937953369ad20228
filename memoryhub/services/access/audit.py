"""Audit log entries for acts outside thread commands, and for looks at content."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Unpack
from uuid import UUID

from django.db import transaction

from memoryhub import journal
from memoryhub.journal import audit
from memoryhub.journal.audit import AuditNote, Details
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock

#: Actor of commands run through `manage.py`.
COMMAND_ACTOR = "command"


def record(
    *, actor: str, action: str, project: UUID | None, **details: Unpack[Details]
) -> None:
    """Append one entry in its own transaction. Raises UnavailableError."""
    append([AuditNote(actor=actor, action=action, project=project, **details)])


def append(entries: Iterable[AuditNote]) -> None:
    """Append several entries together in their own transaction."""
    journal.run(partial(_append_entries, list(entries)))


async def append_soon(entries: Iterable[AuditNote]) -> None:
    """Append entries as `append` does, for coroutines."""
    await journal.run_async(partial(_append_entries, list(entries)))


def record_operator(
    operator: Operator, action: str, *, actor: str = "", purpose: str | None = None
) -> None:
    """Append an entry about an operator, such as a sign-in, to each of their projects.

    Each project gets an entry of its own, so that no project learns of people of
    others. See decision 21.
    """
    rows = Membership.objects.filter(operator=operator).order_by("project_id")
    projects: list[UUID | None] = [*rows.values_list("project_id", flat=True)]
    append(
        AuditNote(
            actor=actor or f"operator:{operator.id}",
            action=action,
            project=project,
            target_kind="operator",
            target_id=str(operator.id),
            purpose=purpose,
        )
        for project in projects or [None]
    )


def record_looks(entry: AuditNote, *others: AuditNote) -> None:
    """Record an operator's looks at content, unless this minute has an entry already.

    One entry for each minute, operator, and thread or subject, however many processes
    serve. All entries share one operator, project, action and outcome. Returns once the
    entries are on disk, in one transaction. Raises UnavailableError; then nothing may
    be shown.
    """
    journal.run(partial(_append_new_looks, [entry, *others]))


def truncate_to_minute(at: datetime) -> datetime:
    """Truncate an instant to its minute."""
    return at.replace(second=0, microsecond=0)


def _append_entries(entries: list[AuditNote]) -> None:
    """Append the entries inside a transaction; runs in the writer."""
    with transaction.atomic():
        audit.append_all(entries)


def _append_new_looks(entries: list[AuditNote]) -> None:
    """Append the entries whose target has none in this minute; runs in the writer."""
    at, first = clock.now(), entries[0]
    with transaction.atomic():
        # Lock before reading: another process may record the same minute.
        Instance.objects.select_for_update().get()
        rows = AuditEntry.objects.filter(
            project=first.project,
            target_id__in=[entry.target_id for entry in entries],
            actor_ref=first.actor.partition(":")[2],
            action=first.action,
            outcome=first.outcome,
            at__gte=truncate_to_minute(at),
        )
        noted = set(rows.values_list("target_id", flat=True))
        new = [each for each in entries if each.target_id not in noted]
        if new:
            audit.append_all(new)
