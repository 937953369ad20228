"""Charts of paging: bins of a thread's turns, each with its mean, least and most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import orjson

from inspector.drawing import plots
from inspector.drawing.plots import Axis, Plot, Series
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import paging_charts
from memoryhub.queries.paging.paging_charts import Bucket, Charts

#: Stretches of a chart that are drawn: more would be a bar code.
BINS = 48
#: Pages of the hot list that are shown.
WARM = 40
_HUES = ("attn", "evicted", "protected", "tool", "assistant", "system", "user")
#: Threads without turns are told by so many events.
_EVENTS = 1_000
_FAULTS = (
    ("fetched", ("faults",)),
    ("refused", ("refused",)),
    ("fetched again too soon", ("refaults",)),
)
_LOOKUPS = (("look-ups", ("hits", "misses")), ("hits", ("hits",)))
RATES = "Resident rate, and TLB hit rate"
Value = Callable[[Bucket], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Neighbouring stretches of the journal as one."""

    buckets: tuple[Bucket, ...]

    @property
    def seq(self) -> int:
        return self.buckets[-1].last

    @property
    def turn(self) -> int:
        last = self.buckets[-1]
        return last.turn + max(0, last.turns - 1)


def picture(
    thread: Thread,
    *,
    first: int | None = None,
    last: int | None = None,
    by: str = "turn",
) -> dict[str, Any]:
    """What the page of paging shows of a stretch. Queries as `get_charts`."""
    found = paging_charts.get_charts(thread, first=first, last=last)
    turns = any(bucket.turn for bucket in found.buckets)
    by = by if turns else "event"
    bins = binned(found.buckets)
    drawn = [*_plots(found, bins, by=by, turns=turns)]
    data = orjson.dumps([plots.data(plot) for plot in drawn]).decode()
    return {
        "charts": found,
        "plots": drawn,
        "drawn": data,
        "by": by,
        "has_turns": turns,
        "warm": found.warm[:WARM],
        "colder": max(0, len(found.warm) - WARM),
    }


def binned(buckets: Sequence[Bucket]) -> list[Bin]:
    """Join neighbours evenly, until there are at most `BINS`."""
    size, count = max(1, -(-len(buckets) // BINS)), len(buckets)
    parts = [tuple(buckets[at : at + size]) for at in range(0, count, size)]
    if len(parts) > 1 and 2 * len(parts[-1]) < size:
        # A few turns alone would say little of how it goes.
        parts[-2:] = [parts[-2] + parts[-1]]
    return [Bin(buckets=part) for part in parts]


def _plots(charts: Charts, bins: Sequence[Bin], *, by: str, turns: bool) -> list[Plot]:
    unit = "a turn" if turns else f"in {_EVENTS:,} events"
    axis = Axis(
        name=by,
        x=[each.turn if by == "turn" else each.seq for each in bins],
        seqs=[each.seq for each in bins],
    )
    rates = (
        _series("resident rate", "good", bins, lambda each: each.resident_rate),
        _series("TLB hit rate", "user", bins, lambda each: each.hit_rate),
    )
    found = [plots.plot("rate", RATES, axis, rates, most=1.0)]
    causes = [(cause, (f"evicted.{cause}",)) for cause in charts.causes]
    for name, title, counted in (
        ("lookups", "Look-ups", _LOOKUPS),
        ("faults", "Faults", _FAULTS),
        ("evictions", "Evictions by cause", causes),
    ):
        series = [
            _series(label, _HUES[n % len(_HUES)], bins, _counting(names, turns=turns))
            for n, (label, names) in enumerate(counted)
        ]
        if series:
            found.append(plots.plot(name, f"{title}, {unit}", axis, series))
    return found


def _series(label: str, hue: str, bins: Sequence[Bin], value: Value) -> Series:
    """The mean of each bin, with the least and the most of its stretches."""
    counted = [
        [v for b in each.buckets if (v := value(b)) is not None] for each in bins
    ]
    return Series(
        label=label,
        hue=hue,
        means=[round(fmean(each), 4) if each else None for each in counted],
        lows=[min(each) if each else None for each in counted],
        highs=[max(each) if each else None for each in counted],
    )


def _counting(names: Sequence[str], *, turns: bool) -> Value:
    """Count these in a stretch, by turn; by so many events where there are none."""

    def value(bucket: Bucket) -> float:
        count = sum(map(bucket.count, names))
        if turns:
            return count / max(1, bucket.turns)
        return count * _EVENTS / max(1, bucket.last - bucket.first + 1)

    return value
