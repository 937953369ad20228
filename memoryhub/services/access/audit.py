"""Notes in the audit log of what is no command of a thread, and of looks at content."""

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
    """As `append`, for coroutines."""
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


def look(entry: Entry) -> None:
    """Note an operator's look at content, unless this minute has one already.

    One entry a minute, operator and thread or subject, however many processes serve.
    Returns once it is on disk. Raises UnavailableError; then nothing may be shown.
    """
    journal.run(partial(_look, entry))


def minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _append(entries: list[Entry]) -> None:
    with transaction.atomic():
        audit.append_all(entries)


def _look(entry: Entry) -> None:
    at = clock.now()
    with transaction.atomic():
        # Held before it is looked: another process may note the same minute.
        Instance.objects.select_for_update().get()
        told = AuditEntry.objects.filter(
            project=entry.project,
            target_id=entry.target_id,
            actor_ref=entry.actor.partition(":")[2],
            action=entry.action,
            outcome=entry.outcome,
            at__gte=minute_of(at),
        )
        if not told.exists():
            audit.append_all([entry])
