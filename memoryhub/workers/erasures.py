"""Erasures in the background: each confirmed erasure is run to its receipt.

In a thread of its own beside all other work, since a step may take long. One of several
processes erases, under a lease. The rows hold the whole state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog

from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.forget import erasures as listed
from memoryhub.services.forget import erasures
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.scan.collecting import remembered
from memoryhub.workers import leases
from memoryhub.workers.loops import WorkerLoop

log = structlog.get_logger()

LEASE = "erase"
#: Confirmed content is unreadable two seconds later, whichever process confirmed it.
POLL_SECONDS = 1.0
#: Erasures that advance together, so that one scrub and one scan serve all of them: at
#: most the number whose clear targets are remembered.
TOGETHER = 50
#: A waiting erasure is tried again after 1, 2, 4 … seconds, at most this.
LONGEST_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Eraser:
    """Worker that runs erasures, step by step, until it is stopped."""

    holder: UUID = field(default_factory=uuid7)
    clock: Callable[[], datetime] = clock.now
    #: Monotonic clock for retries.
    ticks: Callable[[], float] = time.monotonic
    #: By waiting erasure: the time of the next try, and the last pause in seconds.
    _again: dict[UUID, tuple[float, float]] = field(default_factory=dict)
    _held: bool = False
    #: One fencing at a time writes its intentions into the ledger.
    _fencing: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _rounds: WorkerLoop = field(init=False)
    _fences: WorkerLoop = field(init=False)

    def __post_init__(self) -> None:
        self._fences = self._loop("eraser-fence", self.fence)
        self._rounds = self._loop("eraser", self.run_round)
        self._rounds.last = self._release_last

    def start(self) -> None:
        """Run rounds until `stop`, and fence in a second thread."""
        self._fences.start()
        self._rounds.start()

    def stop(self) -> None:
        """Finish the current step. The writer must still run."""
        self._stopped.set()
        self._rounds.stop()
        self._fences.stop()

    def run_round(self) -> int:
        """Advance due erasures while possible, if the lease is ours; return the steps.

        Looks before it takes the lease: an idle worker writes nothing.
        """
        if self._is_suspended():
            return 0
        self._look_for_typed()
        if not (erasures.list_due(self.clock()) or self._list_due()):
            return 0
        if not self._take_lease():
            return 0
        erasures.close_due()
        # Fence all erasures, before the database is searched for the first one.
        steps = self.fence()
        due = self._list_due()
        for start in range(0, len(due), TOGETHER):
            steps += self._advance_batch(due[start : start + TOGETHER])
        return steps

    def _look_for_typed(self) -> None:
        """Run erasures by text typed in this process; no other process has the text."""
        for each in remembered.take_typed():
            erasures.run_erasure(each, stopped=self._stopped.is_set)

    def fence(self) -> int:
        """Fence confirmed erasures, if the lease is ours; return how many.

        Their content is unreadable from then on. In a thread of its own: a scan takes
        minutes, but fencing has two seconds.
        """
        with self._fencing:
            if self._is_suspended() or not (
                batch := self._filter_ready(listed.list_unfenced())
            ):
                return 0
            return sum(self._step(each) for each in batch)

    def _is_suspended(self) -> bool:
        # Nothing else runs while erasures are replayed after a restore.
        return bool(clock.is_skewed or maintenance.waiting)

    def _list_due(self) -> list[UUID]:
        unfinished = listed.list_unfinished()
        # Copy: the other thread may add an entry meanwhile.
        for each in [*self._again]:
            if each not in unfinished:
                self._again.pop(each, None)
        return self._filter_ready(unfinished)

    def _filter_ready(self, batch: list[UUID]) -> list[UUID]:
        now = self.ticks()
        return [each for each in batch if self._again.get(each, (now, 0.0))[0] <= now]

    def _advance_batch(self, batch: list[UUID]) -> int:
        """Advance each erasure while it has steps to do; return the number of steps."""
        steps = 0
        while batch:
            batch = [e for e in batch if not self._stopped.is_set() and self._step(e)]
            steps += len(batch)
        return steps

    def _step(self, erasure: UUID) -> bool:
        """Step an erasure to its next state; return False at its end, or if it waits.

        A failure stays with this erasure, which is tried again like a waiting one.
        """
        row = Erasure.objects.get(id=erasure)
        # Renew before each step: after a long step we must not look like a dead
        # process.
        if row.state in listed.CLOSED or not self._take_lease():
            return False
        before = row.state
        try:
            row = erasures.advance_erasure(row)
        except Exception as failure:  # noqa: BLE001  # the outermost of an erasure
            log.error("worker.failed", worker=LEASE, code=type(failure).__name__)
            erasures.record_failure(row, failure)
        if row.state == before:
            self._wait(erasure)
            return False
        self._again.pop(erasure, None)
        return True

    def _wait(self, erasure: UUID) -> None:
        _, before = self._again.get(erasure, (0.0, 0.0))
        seconds = min(max(1.0, 2 * before), LONGEST_SECONDS)
        self._again[erasure] = (self.ticks() + seconds, seconds)

    def _take_lease(self) -> bool:
        """Take or keep the lease; return whether this process has it."""
        self._held = leases.hold(LEASE, holder=self.holder, now=self.clock())
        return self._held

    def _release_last(self) -> None:
        """Release the lease after the fencing thread has ended, which takes it too."""
        self._fences.join()
        if self._held:
            leases.release(LEASE, holder=self.holder, now=self.clock())

    def _loop(self, name: str, work: Callable[[], object]) -> WorkerLoop:
        return WorkerLoop(
            name=name,
            worker=LEASE,
            work=work,
            pause=lambda: POLL_SECONDS,
            stopped=self._stopped,
        )
