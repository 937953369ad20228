"""The process's clock: wall time at its start, carried on by one that never jumps.

Whatever the machine is told about the time meanwhile, here it passes evenly. Workers
compare it with others' clocks; once it is too far off, the process stands still.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.conf import settings

from memoryhub.errors import ClockSkewError

SECOND_NS = 10**9
#: So far off a clock is put right quietly; beyond it nobody knows which one is wrong.
TOLERANCE_NS = 2 * SECOND_NS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: What Linux and macOS go on counting while the machine sleeps; `time.monotonic` stands
#: still then. Windows has neither, and no need.
_COUNT = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def ticks_ns() -> int:
    """Return nanoseconds since the machine started, the same for all its processes."""
    return time.monotonic_ns() if _COUNT is None else time.clock_gettime_ns(_COUNT)


class Clock:
    """Tells the time to all of a process. Any thread may ask."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        ticks: Callable[[], int] = ticks_ns,
    ) -> None:
        self._ticks = ticks
        self._began_ns = wall_ns() - ticks()
        #: By how much it is behind what it was compared with; 0 while that is little.
        self.skew_ns = 0

    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.time_ns() // 1_000)

    def time(self) -> float:
        """Return seconds since 1970."""
        return self.time_ns() / SECOND_NS

    def time_ns(self) -> int:
        return self._began_ns + self._ticks()

    @property
    def skewed(self) -> bool:
        """Whether it is so far off that nothing may be judged by it."""
        return self.skew_ns != 0

    def compare(self, behind_ns: int) -> None:
        """Take note of how far behind another clock it is; ahead of it is negative.

        A little is caught up with. Much is not, whoever is wrong: order is kept by seq,
        but what a jump would erase is gone.
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

    def hook(self, wall_ns: Callable[[], int]) -> None:
        """Tell this time instead, for tests that travel. Else it does nothing."""
        if settings.TESTING:
            self._began_ns, self._ticks, self.skew_ns = 0, wall_ns, 0


#: The process's one clock.
clock = Clock()
