"""Consolidation in the background: exchanges that are over are asked of the model.

What it knows of threads is in memory alone: who begins looks through all of them, and
the home threads say what was asked. Projects take turns, an exchange each; in each the
newest exchange comes first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from memoryhub.errors import Refusal
from memoryhub.errors.trouble import ModelError
from memoryhub.kernel.knowledge.consolidation import ExchangeConsolidated
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import pending
from memoryhub.queries.episodes.pending import Wanted
from memoryhub.services.knowledge import consolidations
from memoryhub.services.knowledge.consolidations import Due
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

    #: Threads that may have an exchange to be asked, by project, and when the newest of
    #: each began.
    _queues: dict[UUID, dict[UUID, datetime]] = field(default_factory=dict)
    #: Whose turn it is next.
    _turns: deque[UUID] = field(default_factory=deque)
    #: When it began to look the last time.
    _looked: datetime | None = None
    #: When it began to look through all of them, and in which projects.
    _looked_through: datetime | None = None
    _wanted: frozenset[Wanted] = frozenset()
    _rests_until: datetime | None = None
    #: It answered what it was asked last: what it fails at next is to blame itself, and
    #: holds up nobody. That an outage begins so costs one exchange an attempt.
    _awake: bool = False

    def find(self, now: datetime) -> list[UUID]:
        """Threads that moved since the last look, are due again, or wait already."""
        if self._rests_until is not None and now < self._rests_until:
            return []
        due = {thread for thread, at in self._again.items() if at <= now}
        wanted, since = pending.wanted(), self._looked and self._looked - LAG
        looked = self._looked_through
        if looked is None or now - looked >= AFRESH or wanted - self._wanted:
            self._looked_through, since = now, None
        self._wanted = wanted
        found = [*pending.iter_threads(since=since, also=due)]
        for thread in due:
            del self._again[thread]
        for each in found:
            at = each.at or now
            if at <= now or each.thread in due:
                self._queue(each.project, each.thread, each.newest)
            else:
                # What else happens in a thread does not put its silence off.
                self._again[each.thread] = min(at, self._again.get(each.thread, at))
        self._looked = now
        return [thread for queue in self._queues.values() for thread in queue]

    def _queue(self, project: UUID, thread: UUID, newest: datetime) -> None:
        self._queues.setdefault(project, {})[thread] = newest
        if project not in self._turns:
            self._turns.append(project)

    def ask_all(self, found: list[UUID]) -> int:
        """One exchange of each project after the other, for as long as a round lasts.

        So that none waits for all of another's.
        """
        count, until = 0, self.clock() + model_calls.ROUND
        while self._turns and not self.stopped:
            if self.clock() >= until:
                self._cut = True
                break
            project = self._turns.popleft()
            try:
                count += self._ask_project(project)
            except ModelError as away:
                log.warning("model.away", code=away.reason)
                self._rests_until = self.clock() + model_calls.AWAY
                break
            finally:
                if self._queues[project]:
                    self._turns.append(project)
                else:
                    del self._queues[project]
        return count

    def _ask_project(self, project: UUID) -> bool:
        """Ask the newest exchange of a project; False when none is due by now."""
        queue, now = self._queues[project], self.clock()
        if model_calls.is_used_up(project, now):
            self._again |= dict.fromkeys(queue, now + model_calls.USED_UP)
            queue.clear()
            return False
        while queue:
            thread = max(queue, key=queue.__getitem__)
            try:
                due = self._find_due(thread, now)
                if due is None:
                    del queue[thread]
                    continue
                queue[thread] = due.episode.input.at
                # Another thread's may be newer than what is left of this one.
                if queue[thread] == max(queue.values()):
                    self._ask_of(due)
                    return True
            except ModelError:
                # It may be this one that it fails at: another one is asked before it.
                del queue[thread]
                self._again[thread] = now + 1.5 * model_calls.AWAY
                raise
            except Refusal:
                # Restricted or erased meanwhile: it is looked at when it moves.
                del queue[thread]
        return False

    def _find_due(self, thread: UUID, now: datetime) -> Due | None:
        """Its exchange to be asked; without one, note when it is looked at again."""
        row = Thread.objects.select_related("project", "subject").get(id=thread)
        self._again.pop(thread, None)
        if not pending.is_wanted(row):
            return None
        due = consolidations.find_due(row, now=now)
        if due is None:
            later = consolidations.find_next(row, now=now)
            if later is not None:
                self._again[thread] = later
        return due

    def _ask_of(self, due: Due) -> None:
        assert self.ask is not None
        awake, self._awake = self._awake, False
        project = due.thread.project_id
        with model_calls.counted(self.ask, project, "consolidation") as run:
            receipt = consolidations.consolidate(
                due, run, host=model_calls.host(), awake=awake
            )
            self._awake = run.answered or (awake and not run.calls)
            if receipt is not None:
                events = receipt.all(ExchangeConsolidated)
                run.wrote(useless=any(each.failed is not None for each in events))
