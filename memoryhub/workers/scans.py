"""The nightly scan in the background: once a night, by one process of all.

In a thread of its own, for it reads everything that there is: other work goes on. A
beat beside it keeps its lease; whoever loses that, or is stopped, gives the scan up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connections

from memoryhub.models.server.clock import clock
from memoryhub.services.forget import night_scans
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.workers.leases import BEAT_SECONDS, Held
from memoryhub.workers.loops import Loop

LEASE = "scan"
#: How often it is looked whether one is due.
POLL_SECONDS = 60.0


class GivenUpError(Exception):
    """The scan at hand was stopped: another process, or a later one, makes it."""


@dataclass(slots=True, kw_only=True)
class Scanner:
    """Scans at night, until it is stopped."""

    clock: Callable[[], datetime] = clock.now
    beat_seconds: float = BEAT_SECONDS
    _lease: Held = field(init=False)
    _loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self._lease = Held(name=LEASE, clock=self.clock, beat_seconds=self.beat_seconds)
        self._loop = Loop(
            name="scanner",
            worker=LEASE,
            work=self._look,
            pause=lambda: POLL_SECONDS,
        )

    def start(self) -> None:
        """Loop in a thread of its own."""
        self._loop.start()

    def stop(self) -> None:
        """Give up what is at hand. The writer must still run."""
        self._loop.stop()

    def round(self) -> int:
        """Scan if tonight's is due and the lease is ours; how many passes it took.

        Looks first and takes the lease then: while there is nothing to do, nothing is
        written.
        """
        # Whoever replays what a restore brought back is alone with it.
        if clock.skewed or maintenance.waiting:
            return 0
        if not night_scans.due(self.clock()) or not self._lease.take():
            return 0
        try:
            # Another process may have made it while the lease was still its own.
            if not night_scans.due(self.clock()):
                return 0
            with self._lease.beating():
                return len(night_scans.run(self._go_on))
        except GivenUpError:
            return 0
        finally:
            self._lease.release()

    def _look(self) -> None:
        try:
            self.round()
        finally:
            # For a minute nobody needs one.
            connections.close_all()

    def _go_on(self, _: int) -> None:
        if self._loop.stopped.is_set() or self._lease.lost.is_set():
            raise GivenUpError
