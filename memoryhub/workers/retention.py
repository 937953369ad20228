"""Retention: retires threads that were idle for longer than their policy keeps them.

Off unless a project or a thread asks for it. Only what agents, operators and imports
did counts as activity; reads and workers never do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

import orjson
from django.db.models import Q, QuerySet

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Address, Order
from memoryhub.kernel.commands import RetireThread
from memoryhub.models.threads import Thread

ACTOR = "worker:retention"
BATCH = 500
_LIVING = (Thread.Status.OPEN, Thread.Status.CLOSED)


def retire(now: datetime) -> int:
    """Retire what is due; returns how many. Emits thread.retired for each.

    A thread that moves meanwhile, or has an active fork, is left for another hour.
    """
    retired = 0
    for thread, days in _due(now):
        if _fork_active(thread.id, since=now - timedelta(days=days)):
            continue
        # Whatever is refused here is looked at again in an hour.
        with suppress(Refusal):
            journal.perform(order(thread, days=days, now=now))
            retired += 1
    return retired


def _due(now: datetime) -> Iterator[tuple[Thread, int]]:
    """Threads idle for longer than their policy, each with its days."""
    asked = Q(project__retention_idle_days__isnull=False)
    asked |= Q(config__contains='"retention_idle_days"')
    rows = Thread.objects.filter(
        asked, status__in=_LIVING, last_active_at__lte=now - timedelta(days=1)
    )
    for row in _in_batches(rows.select_related("project")):
        days = _policy(row)
        if days is not None and _last_active(row) <= now - timedelta(days=days):
            yield row, days


def _in_batches(rows: QuerySet[Thread]) -> Iterator[Thread]:
    after = UUID(int=0)
    while batch := list(rows.filter(id__gt=after).order_by("id")[:BATCH]):
        yield from batch
        after = batch[-1].id


def _last_active(thread: Thread) -> datetime:
    assert thread.last_active_at is not None  # the query asks for it
    return thread.last_active_at


def _policy(thread: Thread) -> int | None:
    """The thread's own days, else the project's; None keeps for ever."""
    own: int | None = orjson.loads(thread.config).get("retention_idle_days")
    return thread.project.retention_idle_days if own is None else own


def _fork_active(thread: UUID, *, since: datetime) -> bool:
    """Whether a fork, or a fork of one, was active: it reads what this one holds."""
    parents = {thread}
    while parents:
        forks = Thread.objects.filter(parent_id__in=parents, status__in=_LIVING)
        if forks.filter(last_active_at__gt=since).exists():
            return True
        children = Thread.objects.filter(parent_id__in=parents)
        parents = set(children.values_list("id", flat=True))
    return False


def order(thread: Thread, *, days: int, now: datetime) -> Order:
    idle = (now - _last_active(thread)).days
    return Order(
        address=Address(project=thread.project_id, name=thread.name),
        command=RetireThread(policy_days=days, idle_days=idle),
        actor=ACTOR,
        # What we saw as idle must still be so when it is written.
        if_match=thread.head_seq,
    )
