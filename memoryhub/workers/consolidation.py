"""Consolidation in the background: exchanges that are over are asked of the model.

What it knows of threads is in memory alone: who begins looks through all of them, and
the home threads say what was asked.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from memoryhub.errors import Refusal
from memoryhub.errors.trouble import ModelError
from memoryhub.kernel.knowledge.consolidation import ExchangeConsolidated
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import pending
from memoryhub.services.knowledge import consolidations
from memoryhub.workers import model_calls
from memoryhub.workers.model_calls import ModelWorker

log = structlog.get_logger()

LEASE = "consolidation"
#: By how much the time that lists sort by may lag behind what was written.
LAG = timedelta(minutes=2)
#: How often all threads are looked through: nothing else tells of a restriction that
#: was lifted.
AFRESH = timedelta(hours=1)


@dataclass(slots=True, kw_only=True)
class Consolidator(ModelWorker):
    """Asks for the facts of exchanges that are over."""

    name = "consolidator"
    lease = LEASE
    poll_seconds = 10.0

    #: When it began to look the last time.
    _looked: datetime | None = None
    #: When it began to look through all of them, and in which projects.
    _looked_through: datetime | None = None
    _wanted: frozenset[UUID] = frozenset()
    _rests_until: datetime | None = None
    #: It answered what it was asked last: what it fails at next is to blame itself, and
    #: holds up nobody. That an outage begins so costs one exchange an attempt.
    _awake: bool = False

    def find(self, now: datetime) -> list[UUID]:
        """Threads that moved since the last look, and those that are due again."""
        if self._rests_until is not None and now < self._rests_until:
            return []
        due = {thread for thread, at in self._again.items() if at <= now}
        wanted, since = pending.wanted(), self._looked and self._looked - LAG
        looked = self._looked_through
        if looked is None or now - looked >= AFRESH or wanted - self._wanted:
            self._looked_through, since = now, None
        self._wanted = wanted
        found = {
            each.thread: each.at or now
            for each in pending.iter_threads(since=since, also=due)
        }
        for thread in due:
            del self._again[thread]
        for thread, at in found.items():
            # What else happens in a thread does not put its silence off.
            self._again[thread] = min(at, self._again.get(thread, at))
        self._looked = now
        return [thread for thread, at in found.items() if at <= now or thread in due]

    def ask_all(self, found: list[UUID]) -> int:
        """One exchange of each thread after the other, so that none waits for all."""
        left, count = deque(found), 0
        while left and not self.stopped:
            thread = left.popleft()
            try:
                done = self._ask_next(thread)
            except ModelError as away:
                log.warning("model.away", code=away.reason)
                self._rests_until = self.clock() + model_calls.AWAY
                break
            except Refusal:
                # Restricted or erased meanwhile: it is looked at when it moves.
                self._again.pop(thread, None)
                continue
            count += done
            if done:
                left.append(thread)
        return count

    def _ask_next(self, thread: UUID) -> bool:
        """Ask the thread's next exchange; False when none is due by now."""
        now = self.clock()
        row = Thread.objects.select_related("project", "subject").get(id=thread)
        due = consolidations.find_due(row, now=now)
        if due is None:
            later = consolidations.find_next(row, now=now)
            self._again.pop(thread, None)
            if later is not None:
                self._again[thread] = later
            return False
        if model_calls.is_used_up(row.project_id, now):
            self._again[thread] = now + model_calls.USED_UP
            return False
        assert self.ask is not None
        awake, self._awake = self._awake, False
        with model_calls.counted(self.ask, row.project_id, "consolidation") as run:
            receipt = consolidations.consolidate(
                due, run, host=model_calls.host(), awake=awake
            )
            self._awake = run.answered
            if receipt is not None:
                events = receipt.all(ExchangeConsolidated)
                run.wrote(useless=any(each.failed is not None for each in events))
        return True
