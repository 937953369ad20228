"""Consolidation in the background: a model is asked for facts of ended exchanges.

The queue is in memory alone: a new process looks through all threads, and the home
threads record what was asked. Projects take turns, an exchange each; each project's
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
from memoryhub.queries.episodes.pending import ConsolidatingProject
from memoryhub.services.knowledge import consolidations
from memoryhub.services.knowledge.consolidations import DueExchange
from memoryhub.workers import model_calls
from memoryhub.workers.model_calls import ModelWorker

log = structlog.get_logger()

LEASE = "consolidation"
#: Maximum lag of the time that lists sort by behind a thread's newest event.
LAG = timedelta(minutes=2)
#: Interval of looking through all threads: nothing else shows that a restriction was
#: lifted.
AFRESH = timedelta(hours=1)


@dataclass(slots=True, kw_only=True)
class Consolidator(ModelWorker):
    """Worker that asks a model for the facts of ended exchanges."""

    name = "consolidator"
    lease = LEASE
    poll_seconds = 10.0

    #: Threads that may have a due exchange, by project, and when each one's newest
    #: exchange began.
    _queues: dict[UUID, dict[UUID, datetime]] = field(default_factory=dict)
    #: Projects in the order of their turns.
    _turns: deque[UUID] = field(default_factory=deque)
    #: Start of the last look.
    _looked: datetime | None = None
    #: Start of the last look through all threads, and the projects that wanted it.
    _looked_through: datetime | None = None
    _wanted: frozenset[ConsolidatingProject] = frozenset()
    _rests_until: datetime | None = None
    #: The model answered the last question: the exchange itself is to blame for the
    #: next failure, and does not hold up others. An outage that begins then costs one
    #: exchange an attempt.
    _awake: bool = False

    def find(self, now: datetime) -> list[UUID]:
        """Return threads that moved since the last look, that are due, or that wait."""
        if self._rests_until is not None and now < self._rests_until:
            return []
        due = {thread for thread, at in self._again.items() if at <= now}
        wanted, since = (
            pending.list_consolidating_projects(),
            self._looked and self._looked - LAG,
        )
        looked = self._looked_through
        if looked is None or now - looked >= AFRESH or wanted - self._wanted:
            self._looked_through, since = now, None
        self._wanted = wanted
        found = [*pending.iter_due_threads(since=since, also=due)]
        for thread in due:
            del self._again[thread]
        for each in found:
            at = each.at or now
            if at <= now or each.thread in due:
                self._queue_thread(each.project, each.thread, each.newest)
            else:
                # Other events of a thread do not delay its next look.
                self._again[each.thread] = min(at, self._again.get(each.thread, at))
        self._looked = now
        return [thread for queue in self._queues.values() for thread in queue]

    def _queue_thread(self, project: UUID, thread: UUID, newest: datetime) -> None:
        self._queues.setdefault(project, {})[thread] = newest
        if project not in self._turns:
            self._turns.append(project)

    def ask_all(self, found: list[UUID]) -> int:
        """Ask one exchange of each project in turn, until the round is over.

        So no project waits for all exchanges of another.
        """
        count, until = 0, self.clock() + model_calls.ROUND
        while self._turns and not self.is_stopped:
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
                # Another thread's exchange may be newer than this thread's next one.
                if queue[thread] == max(queue.values()):
                    self._ask_exchange(due)
                    return True
            except ModelError:
                # This exchange may be the cause: another exchange is asked before it.
                del queue[thread]
                self._again[thread] = now + 1.5 * model_calls.AWAY
                raise
            except Refusal:
                # Restricted or erased meanwhile: the next event of the thread brings it
                # back.
                del queue[thread]
        return False

    def _find_due(self, thread: UUID, now: datetime) -> DueExchange | None:
        """Return the thread's due exchange; without one, note when to look again."""
        row = Thread.objects.select_related("project", "subject").get(id=thread)
        self._again.pop(thread, None)
        if not pending.can_consolidate(row):
            return None
        due = consolidations.find_due_exchange(row, now=now)
        if due is None:
            later = consolidations.find_next_time(row, now=now)
            if later is not None:
                self._again[thread] = later
        return due

    def _ask_exchange(self, due: DueExchange) -> None:
        assert self.ask is not None
        awake, self._awake = self._awake, False
        project = due.thread.project_id
        with model_calls.count_run(self.ask, project, "consolidation") as run:
            receipt = consolidations.consolidate_exchange(
                due, run, host=model_calls.get_host(), awake=awake
            )
            self._awake = run.has_answer or (awake and not run.calls)
            if receipt is not None:
                events = receipt.list_events(ExchangeConsolidated)
                run.note_result(useless=any(each.failed is not None for each in events))
