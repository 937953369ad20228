"""Audit log entries for acts outside thread commands, and for looks at content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
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

#: How long an entry of a view answers for further looks of the same view.
VIEW_TIME = timedelta(hours=1)

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


def record_looks(entry: AuditNote, *others: AuditNote, continued: bool = False) -> None:
    """Record an operator's looks at content, unless an entry tells of them already.

    One entry for each minute, operator, and thread or subject, however many processes
    serve. If the view is `continued`, one for each hour, view, and thread or subject.
    The first entry of a view counts the entries written with it. All entries share
    one operator, project, action, outcome and view. Returns once the entries are on
    disk, in one transaction. Raises UnavailableError; then nothing may be shown.
    """
    noted = [entry, *others]
    journal.run(partial(_append_new_looks, noted, continued=continued))


async def record_looks_soon(entries: Iterable[AuditNote]) -> None:
    """Record looks of a continued view as `record_looks` does, for coroutines."""
    noted = list(entries)
    await journal.run_async(partial(_append_new_looks, noted, continued=True))


def truncate_to_minute(at: datetime) -> datetime:
    """Truncate an instant to its minute."""
    return at.replace(second=0, microsecond=0)


def _append_entries(entries: list[AuditNote]) -> None:
    """Append the entries inside a transaction; runs in the writer."""
    with transaction.atomic():
        audit.append_all(entries)


def _append_new_looks(entries: list[AuditNote], *, continued: bool) -> None:
    """Append the entries whose target has none yet; runs in the writer."""
    at, first = clock.now(), entries[0]
    with transaction.atomic():
        # Lock before reading: another process may record the same look.
        Instance.objects.select_for_update().get()
        rows = AuditEntry.objects.filter(
            project=first.project,
            actor_ref=first.actor.partition(":")[2],
            action=first.action,
        )
        same = rows.filter(target_id__in=[entry.target_id for entry in entries])
        if continued:
            same = same.filter(request_id=first.request_id, at__gt=at - VIEW_TIME)
        else:
            same = same.filter(outcome=first.outcome, at__gte=truncate_to_minute(at))
        noted = set(same.values_list("target_id", flat=True))
        new = [each for each in entries if each.target_id not in noted]
        if new and not rows.filter(request_id=first.request_id).exists():
            new[0] = replace(new[0], count=len(new))
        if new:
            audit.append_all(new)
