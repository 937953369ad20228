"""Retention: retires threads that were idle for longer than their policy allows.

Off unless a project or a thread asks for it. Only acts of agents, operators and imports
count as activity; reads and workers never do. A retired thread is then erased like a
requested erasure: the policy replaces the confirmation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import orjson
from django.db.models import QuerySet

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Address, Order
from memoryhub.kernel.commands import RetireThread
from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.threads import retention
from memoryhub.services.forget import erasure_steps, erasures

ACTOR = "worker:retention"
REASON = erasure_steps.RETENTION
BATCH = 500
_SCOPE = Erasure.Scope.THREAD


def retire(now: datetime) -> int:
    """Retire due threads; return how many. Emits thread.retired for each.

    A thread that moves meanwhile is left for another hour.
    """
    retired = 0
    for project in Project.objects.order_by("id"):
        for thread in _iter_batched(retention.filter_due(project, at=now)):
            days = _get_policy_days(project, thread)
            # A refused thread is tried again in an hour.
            with suppress(Refusal):
                journal.perform(build_order(thread, days=days, now=now))
                retired += 1
    return retired


def hand_in(now: datetime) -> int:
    """Begin the erasure of retired threads; return how many have begun.

    One erasure of a subject runs at a time: the subject's other threads come when it is
    complete.
    """
    begun = 0
    for project in Project.objects.order_by("id"):
        for thread in retention.iter_retired(project, at=now):
            # A refused thread is tried again in ten seconds.
            with suppress(Refusal):
                _begin_erasure(thread)
                begun += 1
    return begun


def _begin_erasure(thread: Thread) -> None:
    row = erasures.plan(
        thread.subject, scope=_SCOPE, thread=thread, reason=REASON, actor=ACTOR
    )
    count = ErasureLine.from_row(row).count
    erasures.confirm(row, token=erasures.build_token(row), count=count, actor=ACTOR)


def _iter_batched(rows: QuerySet[Thread]) -> Iterator[Thread]:
    after = UUID(int=0)
    while batch := list(rows.filter(id__gt=after).order_by("id")[:BATCH]):
        yield from batch
        after = batch[-1].id


def _get_policy_days(project: Project, thread: Thread) -> int:
    """Return the thread's own days, else the project's; a due thread has either."""
    own: int | None = orjson.loads(thread.config).get("retention_idle_days")
    days = project.retention_idle_days if own is None else own
    assert days is not None
    return days


def build_order(thread: Thread, *, days: int, now: datetime) -> Order:
    assert thread.last_active_at is not None  # it would not be due
    idle = (now - thread.last_active_at).days
    return Order(
        address=Address(project=thread.project_id, name=thread.name),
        command=RetireThread(policy_days=days, idle_days=idle),
        actor=ACTOR,
        # The thread must still be idle when the command is written.
        if_match=thread.head_seq,
    )
