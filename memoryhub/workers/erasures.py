"""Erasures in the background: whatever was confirmed is run to its receipt.

In a thread of its own beside the loop of all other work, for a step may take long; of
several processes one does it, under a lease. All there is to know is in the rows.
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
from memoryhub.workers.loops import Loop

log = structlog.get_logger()

LEASE = "erase"
#: What is confirmed is unreadable two seconds later, whichever process was told.
POLL_SECONDS = 1.0
#: Erasures that go from step to step together, so that one scrub and one scan do for
#: them: not more than have their clear targets remembered.
TOGETHER = 50
#: What waits is tried again after 1, 2, 4 … seconds, at most this.
LONGEST_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Eraser:
    """Runs erasures, one step of each after the other, until it is stopped."""

    holder: UUID = field(default_factory=uuid7)
    clock: Callable[[], datetime] = clock.now
    #: For what is due again; never goes back.
    ticks: Callable[[], float] = time.monotonic
    #: By erasure that waits: when it is tried again, and after how long it was.
    _again: dict[UUID, tuple[float, float]] = field(default_factory=dict)
    _held: bool = False
    #: One at a time says in the ledger what it will do.
    _fencing: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _rounds: Loop = field(init=False)
    _fences: Loop = field(init=False)

    def __post_init__(self) -> None:
        self._fences = self._loop("eraser-fence", self.fence)
        self._rounds = self._loop("eraser", self.round)
        self._rounds.last = self._release_last

    def start(self) -> None:
        """Round after round until `stop`, and beside it the fences."""
        self._fences.start()
        self._rounds.start()

    def stop(self) -> None:
        """Finish the step at hand. The writer must still run."""
        self._stopped.set()
        self._rounds.stop()
        self._fences.stop()

    def round(self) -> int:
        """Advance what is due as far as it goes, if the lease is ours; steps done.

        Looks first and takes the lease then: while there is nothing to do, nothing is
        written.
        """
        if self._kept_away():
            return 0
        self._look_for_typed()
        if not (erasures.due(self.clock()) or self._due()):
            return 0
        if not self._hold():
            return 0
        erasures.tidy()
        # All of them, before the first one's database is looked through.
        steps = self.fence()
        due = self._due()
        for start in range(0, len(due), TOGETHER):
            steps += self._advanced(due[start : start + TOGETHER])
        return steps

    def _look_for_typed(self) -> None:
        """Go on with what was typed in this process, which no other can look for."""
        for each in remembered.take_typed():
            erasures.run(each, stopped=self._stopped.is_set)

    def fence(self) -> int:
        """Make unreadable whatever was confirmed, if the lease is ours; how many.

        In a thread of its own, for a scan takes minutes and this has two seconds.
        """
        with self._fencing:
            if self._kept_away() or not (batch := self._ready(listed.list_unfenced())):
                return 0
            return sum(self._step(each) for each in batch)

    def _kept_away(self) -> bool:
        # Whoever replays what a restore brought back is alone with it.
        return bool(clock.skewed or maintenance.waiting)

    def _due(self) -> list[UUID]:
        unfinished = listed.list_unfinished()
        # A copy: the other thread may add meanwhile.
        for each in [*self._again]:
            if each not in unfinished:
                self._again.pop(each, None)
        return self._ready(unfinished)

    def _ready(self, batch: list[UUID]) -> list[UUID]:
        now = self.ticks()
        return [each for each in batch if self._again.get(each, (now, 0.0))[0] <= now]

    def _advanced(self, batch: list[UUID]) -> int:
        """Step after step of each, while there are any to do; how many."""
        steps = 0
        while batch:
            batch = [e for e in batch if not self._stopped.is_set() and self._step(e)]
            steps += len(batch)
        return steps

    def _step(self, erasure: UUID) -> bool:
        """One state further; False at its end, and once it has to wait.

        What breaks is this one's alone: it is tried again like what waits.
        """
        row = Erasure.objects.get(id=erasure)
        # Before each step: after a long one we must not look like a dead process.
        if row.state in listed.CLOSED or not self._hold():
            return False
        before = row.state
        try:
            row = erasures.advance(row)
        except Exception as failure:  # noqa: BLE001  # the outermost of an erasure
            log.error("worker.failed", worker=LEASE, code=type(failure).__name__)
            erasures.stall(row, failure)
        if row.state == before:
            self._wait(erasure)
            return False
        self._again.pop(erasure, None)
        return True

    def _wait(self, erasure: UUID) -> None:
        _, before = self._again.get(erasure, (0.0, 0.0))
        seconds = min(max(1.0, 2 * before), LONGEST_SECONDS)
        self._again[erasure] = (self.ticks() + seconds, seconds)

    def _hold(self) -> bool:
        self._held = leases.hold(LEASE, holder=self.holder, now=self.clock())
        return self._held

    def _release_last(self) -> None:
        """Release it once nothing is fenced any more, which takes the lease as well."""
        self._fences.join()
        if self._held:
            leases.release(LEASE, holder=self.holder, now=self.clock())

    def _loop(self, name: str, work: Callable[[], object]) -> Loop:
        return Loop(
            name=name,
            worker=LEASE,
            work=work,
            pause=lambda: POLL_SECONDS,
            stopped=self._stopped,
        )
