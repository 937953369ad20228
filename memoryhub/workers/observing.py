"""Observing in the background: a model is asked about threads that are behind.

A few calls run at once, across all projects in turn. What a call is about is in memory
alone: another process derives the same work from the threads' states again. A lease
tells which threads have a call in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connections
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.kernel.state.observing import ObserverRole
from memoryhub.kernel.state.observing_events import ObserverFailed
from memoryhub.models.server.leases import Lease
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import calls
from memoryhub.services.observing import asking
from memoryhub.workers import model_calls
from memoryhub.workers.leases import HeldLease
from memoryhub.workers.model_calls import ModelWorker

LEASE: Final = "observing"
#: Pause of a thread whose result was refused.
AGAIN = timedelta(seconds=10)
#: Threads of one look, and concurrent calls.
THREADS: Final = 100
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
CALLS: Final = 4


@dataclass(slots=True, kw_only=True)
class ThreadObserver(ModelWorker):
    """Worker that observes and condenses due threads."""

    name = "observer"
    lease = LEASE
    poll_seconds = 5.0

    calls: int = CALLS
    #: End of the round.
    _until: datetime = _NEVER

    def find(self, now: datetime) -> list[UUID]:
        """Return marked threads: of each project in turn, longest silent first.

        One query.
        """
        rows = Thread.objects.filter(
            observer_due=True,
            status=Thread.Status.OPEN,
            subject__state=Subject.State.ACTIVE,
        )
        later = [thread for thread, at in self._again.items() if at > now]
        turn = Window(
            RowNumber(), partition_by=F("project"), order_by=("listed_at", "id")
        )
        fair = rows.exclude(id__in=later).order_by(turn, "listed_at", "id")
        return [*fair.values_list("id", flat=True)[:THREADS]]

    def ask_all(self, found: list[UUID]) -> int:
        self._until = self.clock() + model_calls.ROUND
        # This process alone has calls: all others are of processes that died.
        journal.run(calls.list_leases().delete)
        if self.calls == 1:
            return sum(map(self._ask_next, found))
        with ThreadPoolExecutor(self.calls, thread_name_prefix="observer") as pool:
            return sum(pool.map(self._ask_and_close, found))

    def _ask_and_close(self, thread: UUID) -> bool:
        """Ask the model once for a thread; return as `_ask_next` does."""
        try:
            return self._ask_next(thread)
        finally:
            connections.close_all()

    def _ask_next(self, thread: UUID) -> bool:
        """Ask about one thread; False when nothing is due, or the round is over."""
        now, window = self.clock(), None
        if self.is_stopped or now >= self._until:
            self._cut = True
            return False
        if settings.MODEL is not None:
            window = settings.MODEL.window_tokens
        row = Thread.objects.select_related("project", "subject").get(id=thread)
        self._again.pop(thread, None)
        try:
            due = asking.find_due_request(row, window=window, now=now)
            if due is None:
                later = asking.find_retry_time(row, now=now)
                if later is None:
                    journal.run(partial(_clear_mark, row))
                else:
                    self._again[thread] = later
                return False
            if model_calls.is_used_up(row.project_id, now):
                self._again[thread] = now + model_calls.USED_UP
                return False
            assert self.ask is not None
            with (
                _keep_call(due.role, thread),
                model_calls.count_run(self.ask, row.project_id, due.role) as run,
            ):
                receipt = asking.run_request(due, run, host=model_calls.get_host())
                if receipt is not None:
                    run.note_result(useless=bool(receipt.list_events(ObserverFailed)))
                else:
                    # A refusal may repeat, and asking costs tokens.
                    self._again[thread] = now + AGAIN
        except Refusal:
            # Restricted or erased meanwhile: the next event of the thread brings it
            # back. Any other refusal may repeat.
            self._again[thread] = now + AGAIN
            return False
        return True


@contextmanager
def _keep_call(role: ObserverRole, thread: UUID) -> Iterator[None]:
    """Keep the lease that tells of a call in flight; delete it afterwards."""
    lease = HeldLease(name=calls.build_lease_name(role, thread))
    lease.take()
    try:
        with lease.keep_beating():
            yield
    finally:
        journal.run(Lease.objects.filter(holder=lease.holder).delete)


def _clear_mark(thread: Thread) -> None:
    """Clear the thread's mark, unless somebody has written to the thread meanwhile."""
    rows = Thread.objects.filter(id=thread.id, head_seq=thread.head_seq)
    rows.update(observer_due=False)
