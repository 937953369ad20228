"""Entries in the audit log for what is no command of a thread, and looks at content."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Unpack
from uuid import UUID

from django.db import transaction

from memoryhub import journal
from memoryhub.journal import audit
from memoryhub.journal.audit import Details, Entry
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock

#: Whoever runs `manage.py`.
COMMAND = "command"


def record(
    *, actor: str, action: str, project: UUID | None, **details: Unpack[Details]
) -> None:
    """Note one thing, in a transaction of its own. Raises UnavailableError."""
    append([Entry(actor=actor, action=action, project=project, **details)])


def append(entries: Iterable[Entry]) -> None:
    """Note several things at once, in a transaction of their own."""
    journal.run(partial(_append, list(entries)))


async def append_soon(entries: Iterable[Entry]) -> None:
    """Append as `append` does, for coroutines."""
    await journal.run_async(partial(_append, list(entries)))


def record_operator(
    operator: Operator, action: str, *, actor: str = "", purpose: str | None = None
) -> None:
    """Note what is about an operator, as a sign-in, once in each of their projects.

    So that nobody hears of people of other projects.
    """
    rows = Membership.objects.filter(operator=operator).order_by("project_id")
    projects: list[UUID | None] = [*rows.values_list("project_id", flat=True)]
    append(
        Entry(
            actor=actor or f"operator:{operator.id}",
            action=action,
            project=project,
            target_kind="operator",
            target_id=str(operator.id),
            purpose=purpose,
        )
        for project in projects or [None]
    )


def look(entry: Entry, *others: Entry) -> None:
    """Note an operator's looks at content, but for those that this minute has already.

    One entry a minute, operator and thread or subject, however many processes serve.
    All are of one operator, project, action and outcome. Returns once they are on disk,
    in one transaction. Raises UnavailableError; then nothing may be shown.
    """
    journal.run(partial(_look, [entry, *others]))


def minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _append(entries: list[Entry]) -> None:
    with transaction.atomic():
        audit.append_all(entries)


def _look(entries: list[Entry]) -> None:
    at, first = clock.now(), entries[0]
    with transaction.atomic():
        # Held before it is looked: another process may note the same minute.
        Instance.objects.select_for_update().get()
        rows = AuditEntry.objects.filter(
            project=first.project,
            target_id__in=[entry.target_id for entry in entries],
            actor_ref=first.actor.partition(":")[2],
            action=first.action,
            outcome=first.outcome,
            at__gte=minute_of(at),
        )
        noted = set(rows.values_list("target_id", flat=True))
        new = [each for each in entries if each.target_id not in noted]
        if new:
            audit.append_all(new)
