"""Series: activity of a project over a range of time, in bins. Never writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from memoryhub.journal.writing.activity import (
    ANSWERED,
    WITHIN,
    HourRow,
    compute_interval_start,
)
from memoryhub.kernel.state.paging import compute_resident_rate
from memoryhub.models.activity import ProjectHour, RefusalCount
from memoryhub.queries.turns.prices import EstimatedCost, PriceTable

#: Fewest exchanges for which a project's rate is meaningful.
ENOUGH_EXCHANGES: Final = 100
#: Longest measured waits, in milliseconds, for the disk and for an answer of the model.
LONGEST_WAIT: Final = WITHIN[-1]
LONGEST_ANSWER: Final = ANSWERED[-1]
_COLUMNS: Final = HourRow._fields[3:]
_WAITED: Final = _COLUMNS.index("within_1")
_ANSWERED: Final = _COLUMNS.index("answered_250")


class TimeRange(NamedTuple):
    """A range of time shown: minutes of a row, rows of a bin, number of bins."""

    word: str
    minutes: int
    rows: int
    bins: int

    @property
    def bin_width(self) -> timedelta:
        return timedelta(minutes=self.minutes * self.rows)


RANGES: Final[Mapping[str, TimeRange]] = MappingProxyType(
    {
        "15m": TimeRange("15 min", 1, 1, 15),
        "1h": TimeRange("1 h", 1, 1, 60),
        "24h": TimeRange("24 h", 15, 1, 96),
        "30d": TimeRange("30 d", 60, 6, 120),
    }
)
DEFAULT_RANGE: Final = "1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityBin:
    """Counts of a project's activity from `at` on, in the order of the columns."""

    at: datetime
    figures: tuple[int, ...]
    #: Refusals by code.
    refusals: Mapping[str, int]

    def count(self, name: str) -> int:
        return self.figures[_COLUMNS.index(name)]

    @property
    def events(self) -> int:
        return self.count("events")

    @property
    def turns(self) -> int:
        return self.count("turns")

    @property
    def tokens(self) -> int:
        return self.count("tokens")

    @property
    def faults(self) -> int:
        return self.count("faults")

    @property
    def refaults(self) -> int:
        return self.count("refaults")

    @property
    def exchanges(self) -> int:
        """Exchanges that began, or that had a fetch, whichever number is greater.

        A fetch is counted when it happens, which may be a bin later.
        """
        return max(self.count("exchanges"), self.count("faulted_exchanges"))

    @property
    def resident_rate(self) -> float | None:
        return compute_resident_rate(self.exchanges, self.count("faulted_exchanges"))

    @property
    def refused(self) -> int:
        return sum(self.refusals.values())

    def compute_wait(self, share: float) -> float | None:
        """Return the milliseconds within which this share of commands was on disk.

        Interpolates within a column; a command slower than all columns counts as 1 s.
        """
        return _compute_quantile(WITHIN, self.figures[_WAITED:_ANSWERED], share)

    def compute_answer_time(self, share: float) -> float | None:
        """Return the milliseconds within which this share of answers came.

        Interpolates within a column; an answer after 64 s counts as 64 s.
        """
        return _compute_quantile(ANSWERED, self.figures[_ANSWERED:], share)

    def compute_cost(self, table: PriceTable) -> EstimatedCost | None:
        """Compute what requests and answers cost by the table's first row."""
        cached, answers = self.count("prefix_tokens"), self.count("answer_tokens")
        return table.compute_cost(self.tokens, cached, answers)


def _compute_quantile(
    bounds: Sequence[int], counts: Sequence[int], share: float
) -> float | None:
    wanted, below, passed = sum(counts) * share, 0, 0
    if not wanted:
        return None
    for bound, count in zip(bounds, counts, strict=False):
        if passed + count >= wanted:
            return below + (bound - below) * (wanted - passed) / count
        passed, below = passed + count, bound
    return float(bounds[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySeries:
    """Bins of a range, oldest first; the last bin is not over yet."""

    range: TimeRange
    bins: tuple[ActivityBin, ...]

    @property
    def whole(self) -> ActivityBin:
        return sum_bins(self.bins)

    @property
    def end(self) -> datetime:
        return self.bins[-1].at + self.range.bin_width

    def sum_since(self, at: datetime) -> ActivityBin | None:
        """Return the sum of bins from the bin of this time on; None without bins."""
        later = [each for each in self.bins if each.at + self.range.bin_width > at]
        return sum_bins(later) if later else None

    def sum_before(self, at: datetime) -> ActivityBin | None:
        """Return the sum of the bins before the bin of this time; None without bins."""
        earlier = [each for each in self.bins if each.at + self.range.bin_width <= at]
        return sum_bins(earlier) if earlier else None

    def find_position(self, at: datetime) -> float | None:
        """Return the position of a time in the range, 0 to 1; None outside of it."""
        first, last = self.bins[0].at, self.end
        return (at - first) / (last - first) if first <= at < last else None


def get_series(project: UUID, range_: TimeRange, *, now: datetime) -> ActivitySeries:
    """Count the project's activity over a range. Two queries, of at most 720 rows."""
    last = compute_interval_start(
        int(now.timestamp()) // 60, range_.minutes * range_.rows
    )
    start = last - (range_.bins - 1) * range_.bin_width
    hours = ProjectHour.objects.filter(
        project=project, minutes=range_.minutes, at__gte=start
    )
    refusals = RefusalCount.objects.filter(
        project=project, thread=None, minutes=range_.minutes, at__gte=start
    )
    figures: dict[int, list[int]] = {}
    for at, *counts in hours.values_list("at", *_COLUMNS):
        place = (at - start) // range_.bin_width
        held = figures.setdefault(place, [0] * len(_COLUMNS))
        figures[place] = [sum(pair) for pair in zip(held, counts, strict=True)]
    codes: dict[int, Counter[str]] = {}
    for at, code, count in refusals.values_list("at", "code", "count"):
        place = (at - start) // range_.bin_width
        codes.setdefault(place, Counter())[code] += count
    return ActivitySeries(
        range=range_,
        bins=tuple(
            ActivityBin(
                at=start + place * range_.bin_width,
                figures=tuple(figures.get(place) or [0] * len(_COLUMNS)),
                refusals=codes.get(place, Counter()),
            )
            for place in range(range_.bins)
        ),
    )


def sum_bins(bins: Iterable[ActivityBin]) -> ActivityBin:
    """Sum up bins into one. Raises IndexError without bins."""
    listed = list(bins)
    refusals: Counter[str] = Counter()
    for each in listed:
        refusals.update(each.refusals)
    columns = zip(*(each.figures for each in listed), strict=True)
    return ActivityBin(
        at=listed[0].at,
        figures=tuple(sum(column) for column in columns),
        refusals=refusals,
    )
