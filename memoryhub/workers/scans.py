"""The nightly scan in the background: once a night, by one process at a time.

In a thread of its own, since the scan reads the whole database and other work goes on.
A beating thread keeps the lease; a process that loses it, or is stopped, gives the scan
up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connections

from memoryhub.models.server.clock import clock
from memoryhub.services.forget import night_scans
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.workers.leases import BEAT_SECONDS, HeldLease
from memoryhub.workers.loops import WorkerLoop

LEASE = "scan"
#: Seconds between two checks whether a scan is due.
POLL_SECONDS = 60.0


class GivenUpError(Exception):
    """The running scan was stopped: another process, or a later one, scans instead."""


@dataclass(slots=True, kw_only=True)
class Scanner:
    """Worker that scans at night, until it is stopped."""

    clock: Callable[[], datetime] = clock.now
    beat_seconds: float = BEAT_SECONDS
    _lease: HeldLease = field(init=False)
    _loop: WorkerLoop = field(init=False)

    def __post_init__(self) -> None:
        self._lease = HeldLease(
            name=LEASE, clock=self.clock, beat_seconds=self.beat_seconds
        )
        self._loop = WorkerLoop(
            name="scanner",
            worker=LEASE,
            work=self._look,
            pause=lambda: POLL_SECONDS,
        )

    def start(self) -> None:
        """Loop in a thread of its own."""
        self._loop.start()

    def stop(self) -> None:
        """Give up the running scan. The writer must still run."""
        self._loop.stop()

    def run_round(self) -> int:
        """Scan if tonight's scan is due and the lease is ours; return its passes.

        Looks before it takes the lease: an idle worker writes nothing.
        """
        # Nothing else runs while erasures are replayed after a restore.
        if clock.is_skewed or maintenance.waiting:
            return 0
        if not night_scans.is_due(self.clock()) or not self._lease.take():
            return 0
        try:
            # Another process may have scanned while it still had the lease.
            if not night_scans.is_due(self.clock()):
                return 0
            with self._lease.keep_beating():
                return len(night_scans.run_scans(self._require_running))
        except GivenUpError:
            return 0
        finally:
            self._lease.release()

    def _look(self) -> None:
        try:
            self.run_round()
        finally:
            # No connection is needed for the next minute.
            connections.close_all()

    def _require_running(self, _: int) -> None:
        if self._loop.stopped.is_set() or self._lease.lost.is_set():
            raise GivenUpError
