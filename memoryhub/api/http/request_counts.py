"""Counts of API requests by route, since the process began."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

#: Seconds up to which an answer counts in the first column, the second, and so on.
WITHIN: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
#: Name of all requests that reach no operation, so that no address becomes a name.
OTHER: Final = "other"


class RequestCounts:
    """Answers by route. Only the event loop counts; any thread may read."""

    def __init__(self) -> None:
        #: By route and first digit of the status.
        self.answers: Counter[tuple[str, int]] = Counter()
        #: By route: a column for each of `WITHIN`, the slower, and all seconds.
        self.durations: dict[str, list[float]] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count an answer, whose first byte took `seconds`."""
        self.answers[route, status // 100] += 1
        if (columns := self.durations.get(route)) is None:
            columns = self.durations[route] = [0] * (len(WITHIN) + 2)
        columns[bisect_left(WITHIN, seconds)] += 1
        columns[-1] += seconds


#: The only counts of requests of this process.
requests = RequestCounts()
