"""Observing in the background: a model is asked of threads that are behind.

A few are asked at once, of all projects in turn. What is in flight is in memory alone:
who takes over derives the same work from the threads' states again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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
from memoryhub.kernel.state.observing_events import ObserverFailed
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.observing import asking
from memoryhub.workers import model_calls
from memoryhub.workers.model_calls import ModelWorker

LEASE: Final = "observing"
#: How long a thread waits whose result was refused.
AGAIN = timedelta(seconds=10)
#: Threads of one look, and calls at once.
THREADS: Final = 100
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
CALLS: Final = 4


@dataclass(slots=True, kw_only=True)
class ThreadObserver(ModelWorker):
    """Observes and condenses what is due."""

    name = "observer"
    lease = LEASE
    poll_seconds = 5.0

    calls: int = CALLS
    #: When the round is over.
    _until: datetime = _NEVER

    def find(self, now: datetime) -> list[UUID]:
        """Threads with the mark: of each project in turn, longest silent first.

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
        if self.calls == 1:
            return sum(map(self._ask_next, found))
        with ThreadPoolExecutor(self.calls, thread_name_prefix="observer") as pool:
            return sum(pool.map(self._ask_apart, found))

    def _ask_apart(self, thread: UUID) -> bool:
        try:
            return self._ask_next(thread)
        finally:
            connections.close_all()

    def _ask_next(self, thread: UUID) -> bool:
        """Ask of one thread; False when nothing is due, or the round is over."""
        now, window = self.clock(), None
        if self.stopped or now >= self._until:
            self._cut = True
            return False
        if settings.MODEL is not None:
            window = settings.MODEL.window_tokens
        row = Thread.objects.select_related("project", "subject").get(id=thread)
        self._again.pop(thread, None)
        try:
            due = asking.find_due(row, window=window, now=now)
            if due is None:
                later = asking.find_next(row, now=now)
                if later is None:
                    journal.run(partial(_looked, row))
                else:
                    self._again[thread] = later
                return False
            if model_calls.is_used_up(row.project_id, now):
                self._again[thread] = now + model_calls.USED_UP
                return False
            assert self.ask is not None
            with model_calls.counted(self.ask, row.project_id, due.role) as run:
                receipt = asking.observe(due, run, host=model_calls.host())
                if receipt is not None:
                    run.wrote(useless=bool(receipt.all(ObserverFailed)))
                else:
                    # What was refused once may be again, and asking costs tokens.
                    self._again[thread] = now + AGAIN
        except Refusal:
            # Restricted or erased meanwhile: it is looked at when it moves; what else
            # refused it may do so again.
            self._again[thread] = now + AGAIN
            return False
        return True


def _looked(thread: Thread) -> None:
    """Take the mark off, unless somebody has written to the thread meanwhile."""
    rows = Thread.objects.filter(id=thread.id, head_seq=thread.head_seq)
    rows.update(observer_due=False)
