"""Paging charts: bins of a thread's turns, with mean, least and most of each bin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import orjson

from inspector.drawing import plots
from inspector.drawing.plots import LinePlot, PlotAxis, PlotSeries
from memoryhub.kernel.state.paging import EXCHANGES_KEPT
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import paging_charts
from memoryhub.queries.paging.paging_charts import ChartBucket, PagingCharts
from memoryhub.queries.replay import replay
from memoryhub.queries.turns import own_calls, qualities

#: Most bins that a chart draws; more would look like a bar code.
MAX_BINS = 48
#: Most pages of the hot list that are shown.
MAX_HOT_PAGES = 40
_HUES = ("attn", "evicted", "protected", "tool", "assistant", "system", "user")
#: Events per unit of a chart of a thread without turns.
_EVENTS_PER_UNIT = 1_000
_FAULTS = (
    ("fetched", ("faults",)),
    ("refused", ("refused",)),
    ("fetched again too soon", ("refaults",)),
)
_LOOKUPS = (("look-ups", ("hits", "misses")), ("hits", ("hits",)))
RATES = "Resident rate, and TLB hit rate"
#: Labels of the two rates: each is of another span than the figure above the charts.
RESIDENT_LABEL = f"resident rate of the last {EXCHANGES_KEPT} exchanges"
BucketValue = Callable[[ChartBucket], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBin:
    """Neighbouring buckets of the journal, drawn as one point."""

    buckets: tuple[ChartBucket, ...]

    @property
    def seq(self) -> int:
        return self.buckets[-1].last

    @property
    def turn(self) -> int:
        last = self.buckets[-1]
        return last.turn + max(0, last.turns - 1)


def build_context(
    thread: Thread,
    *,
    first: int | None = None,
    last: int | None = None,
    by: str = "turn",
) -> dict[str, Any]:
    """Build the context of the paging charts of a thread.

    Queries as `get_charts`, and five more for the quality of memory and verdicts.
    """
    found = paging_charts.get_charts(thread, first=first, last=last)
    state = replay.load_state_at(thread, found.whole.last).state
    turns = any(bucket.turn for bucket in found.buckets)
    by = by if turns else "event"
    bins = join_buckets(found.buckets)
    drawn = [*_build_plots(found, bins, by=by, turns=turns)]
    verdicts = own_calls.count_verdicts(
        thread, first=found.whole.first, last=found.whole.last
    )
    data = orjson.dumps([plots.build_chart_data(plot) for plot in drawn]).decode()
    return {
        "charts": found,
        "quality": qualities.get_quality(thread, state),
        "plots": drawn,
        "drawn": data,
        "by": by,
        "has_turns": turns,
        "verdicts": verdicts,
        "own_calls": sum(verdicts.values()),
        "warm": found.warm[:MAX_HOT_PAGES],
        "colder": max(0, len(found.warm) - MAX_HOT_PAGES),
    }


def join_buckets(buckets: Sequence[ChartBucket]) -> list[ChartBin]:
    """Join neighbouring buckets evenly into at most `MAX_BINS` bins."""
    size, count = max(1, -(-len(buckets) // MAX_BINS)), len(buckets)
    parts = [tuple(buckets[at : at + size]) for at in range(0, count, size)]
    if len(parts) > 1 and 2 * len(parts[-1]) < size:
        # A last bin of a few turns would say little about the trend.
        parts[-2:] = [parts[-2] + parts[-1]]
    return [ChartBin(buckets=part) for part in parts]


def _build_plots(
    charts: PagingCharts, bins: Sequence[ChartBin], *, by: str, turns: bool
) -> list[LinePlot]:
    unit = "a turn" if turns else f"in {_EVENTS_PER_UNIT:,} events"
    axis = PlotAxis(
        name=by,
        x=[each.turn if by == "turn" else each.seq for each in bins],
        seqs=[each.seq for each in bins],
    )
    rates = (
        _build_series(RESIDENT_LABEL, "good", bins, lambda each: each.resident_rate),
        _build_series(
            _label_hit_rate(bins, turns=turns),
            "user",
            bins,
            lambda each: each.hit_rate,
        ),
    )
    found = [plots.draw_plot("rate", RATES, axis, rates, most=1.0)]
    causes = [(cause, (f"evicted.{cause}",)) for cause in charts.causes]
    for name, title, counted in (
        ("lookups", "Look-ups", _LOOKUPS),
        ("faults", "Faults", _FAULTS),
        ("evictions", "Evictions by cause", causes),
    ):
        series = [
            _build_series(
                label, _HUES[n % len(_HUES)], bins, _build_counter(names, turns=turns)
            )
            for n, (label, names) in enumerate(counted)
        ]
        if series:
            found.append(plots.draw_plot(name, f"{title}, {unit}", axis, series))
    return found


def _label_hit_rate(bins: Sequence[ChartBin], *, turns: bool) -> str:
    """Label the TLB hit rate of a point with the span that it is of."""
    if not turns:
        return "TLB hit rate of each stretch"
    most = max(bucket.turns for each in bins for bucket in each.buckets)
    span = f"{most:,} turns" if most > 1 else "turn alone"
    return f"TLB hit rate of each {span}"


def _build_series(
    label: str, hue: str, bins: Sequence[ChartBin], value: BucketValue
) -> PlotSeries:
    """Build a series: mean of each bin, with the least and most of its buckets."""
    counted = [
        [v for b in each.buckets if (v := value(b)) is not None] for each in bins
    ]
    return PlotSeries(
        label=label,
        hue=hue,
        means=[round(fmean(each), 4) if each else None for each in counted],
        lows=[min(each) if each else None for each in counted],
        highs=[max(each) if each else None for each in counted],
    )


def _build_counter(names: Sequence[str], *, turns: bool) -> BucketValue:
    """Build a counter of `names` in a bucket, per turn or `_EVENTS_PER_UNIT`."""

    def count_in_bucket(bucket: ChartBucket) -> float:
        count = sum(map(bucket.count, names))
        if turns:
            return count / max(1, bucket.turns)
        return count * _EVENTS_PER_UNIT / max(1, bucket.last - bucket.first + 1)

    return count_in_bucket
