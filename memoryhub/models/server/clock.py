"""The process's clock: wall time at its start, advanced by a monotonic clock.

Changes of the machine's time do not affect the clock. Workers compare the clock with
other processes' clocks; once it is too far off, the process refuses to work. See
decision 11.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.conf import settings

from memoryhub.errors import ClockSkewError

SECOND_NS = 10**9
#: Largest deviation that is corrected silently; beyond it either clock may be wrong.
TOLERANCE_NS = 2 * SECOND_NS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Clock that on Linux and macOS also counts while the machine sleeps, unlike
#: `time.monotonic`. Windows has no such clock, and no need.
_COUNT = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def read_ticks_ns() -> int:
    """Return nanoseconds since the machine started, equal in all its processes."""
    return time.monotonic_ns() if _COUNT is None else time.clock_gettime_ns(_COUNT)


class Clock:
    """Clock of a process, safe to use from any thread."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        ticks: Callable[[], int] = read_ticks_ns,
    ) -> None:
        self._ticks = ticks
        self._began_ns = wall_ns() - ticks()
        #: Nanoseconds that this clock is behind the other; 0 within the tolerance.
        self.skew_ns = 0

    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.time_ns() // 1_000)

    def time(self) -> float:
        """Return seconds since 1970."""
        return self.time_ns() / SECOND_NS

    def time_ns(self) -> int:
        return self._began_ns + self._ticks()

    @property
    def is_skewed(self) -> bool:
        """Whether the clock is too far off to judge anything by."""
        return self.skew_ns != 0

    def compare(self, behind_ns: int) -> None:
        """Note the nanoseconds that this clock is behind another; ahead is negative.

        A deviation within the tolerance is corrected. A larger deviation is not: seqs
        keep the order of events, but a jump could erase values for good.
        """
        if abs(behind_ns) <= TOLERANCE_NS:
            self._began_ns += behind_ns
            self.skew_ns = 0
        else:
            self.skew_ns = behind_ns

    def require_true(self) -> None:
        """Raise ClockSkewError while the clock is too far off."""
        if self.skew_ns:
            raise ClockSkewError(behind_seconds=self.skew_ns // SECOND_NS)

    def use_source(self, wall_ns: Callable[[], int]) -> None:
        """Use another source of time, for tests that travel; no effect elsewhere."""
        if settings.TESTING:
            self._began_ns, self._ticks, self.skew_ns = 0, wall_ns, 0


#: The single clock of the process.
clock = Clock()
