"""Observing in the background: a model is asked of threads that are behind.

In a thread of its own, for an answer may take a minute, by one process of all; a few
are asked at once. What is in flight is in memory alone: who takes over derives the same
work from the threads' states again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connections

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.model_calls import Ask
from memoryhub.services.observing import asking
from memoryhub.workers import model_calls
from memoryhub.workers.leases import Held
from memoryhub.workers.loops import Loop

LEASE: Final = "observing"
POLL_SECONDS = 5.0
#: How long a thread waits whose result was refused.
AGAIN = timedelta(seconds=10)
#: Threads of one look, and calls at once.
THREADS: Final = 100
CALLS: Final = 4


@dataclass(slots=True, kw_only=True)
class ThreadObserver:
    """Asks for what is due, round after round, until it is stopped."""

    clock: Callable[[], datetime] = clock.now
    ask: Ask | None = field(default_factory=model_calls.model)
    calls: int = CALLS
    _lease: Held = field(init=False)
    _loop: Loop = field(init=False)
    #: Threads of which nothing is to be asked before then.
    _again: dict[UUID, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lease = Held(name=LEASE, clock=self.clock)
        self._loop = Loop(
            name="observer", worker=LEASE, work=self._work, pause=lambda: POLL_SECONDS
        )

    def start(self) -> None:
        """Loop in a thread of its own, if there is a model to ask."""
        if self.ask is not None:
            self._loop.start()

    def stop(self) -> None:
        """Finish the calls at hand. The writer must still run."""
        self._loop.stop()

    def round(self) -> int:
        """Ask what is due, if the lease is ours; how many threads were asked of."""
        if self.ask is None or clock.skewed or maintenance.waiting:
            return 0
        found = self._find(self.clock())
        if not found or not self._lease.take():
            return 0
        try:
            with self._lease.beating():
                return self._ask_all(found)
        finally:
            self._lease.release()

    def _work(self) -> None:
        try:
            self.round()
        finally:
            connections.close_all()

    def _find(self, now: datetime) -> list[UUID]:
        """Threads with the mark, longest silent first. One query."""
        rows = Thread.objects.filter(
            observer_due=True,
            status=Thread.Status.OPEN,
            subject__state=Subject.State.ACTIVE,
        ).order_by("listed_at", "id")
        ids = rows.values_list("id", flat=True)[:THREADS]
        return [each for each in ids if self._again.get(each, now) <= now]

    def _ask_all(self, found: Sequence[UUID]) -> int:
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
        """Ask of one thread; False when nothing is due."""
        if self._loop.stopped.is_set() or self._lease.lost.is_set():
            return False
        now, window = self.clock(), None
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
            counted = model_calls.Counted(self.ask, row.project_id)
            if asking.observe(due, counted, host=model_calls.host()) is None:
                # What was refused once may be again, and asking costs tokens.
                self._again[thread] = now + AGAIN
        except Refusal:
            # Restricted or erased meanwhile: it is looked at when it moves.
            return False
        return True


def _looked(thread: Thread) -> None:
    """Take the mark off, unless somebody has written to the thread meanwhile."""
    rows = Thread.objects.filter(id=thread.id, head_seq=thread.head_seq)
    rows.update(observer_due=False)
