"""Charts of the overview: a series and the moments of the list, as plots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from inspector.overview import time_plots
from inspector.overview.time_plots import Drawn, Onset, Plot, Scale
from memoryhub.queries.overview.series import Bin, Series
from memoryhub.queries.overview.unhealthy import UnhealthyThing
from memoryhub.queries.threads.verdicts import LEAST_RESIDENT_RATE
from memoryhub.queries.turns import prefixes

Figure = Callable[[Bin], float | None]
#: Heights of the one that leads, and of the others.
LEAD, SMALL = 326, 104
#: Codes of refusals that have a hue of their own; all others share the last.
HUES = ("b1", "b2", "b3")
_WORDS = {
    "fault_budget": "no faults left",
    "fault_tokens": "no fault tokens left",
    "fault_confidence": "too uncertain",
    "no_room": "no room",
    "page_unknown": "unknown page",
    "page_erased": "erased page",
    "not_found": "not found",
}
_BEGINS = {
    "thrashing": "begins to thrash",
    "faulting": "begins to fetch",
    "refused": "is refused fetches",
    "full": "has over 90 % of its messages",
    "missing": "misses the TLB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeKey:
    """A code in the legend of refusals."""

    hue: str
    #: Empty for all that have no hue of their own.
    code: str
    word: str
    count: int


def word_of(code: str) -> str:
    """Say a code of ours in words."""
    return _WORDS.get(code, code.replace("_", " "))


def onsets(
    series: Series, things: Sequence[UnhealthyThing], threads: str
) -> list[Onset]:
    """Return the moments of the list that lie in the range, numbered as there.

    `threads` is the address of the list of threads.
    """
    found = []
    for number, thing in enumerate(things, start=1):
        if thing.thread is None or thing.onset.at is None:
            continue
        place = series.place(thing.onset.at)
        if place is not None:
            found.append(
                Onset(
                    place=place,
                    tone=thing.tone,
                    number=number,
                    word=f"{thing.thread.name} {_BEGINS[thing.verdicts[0].flag]}",
                    href=f"{threads}/{thing.thread.name}/{moment_of(thing)}",
                )
            )
    if found:
        # One of them is said: the worst, which the list begins with.
        found = [found[0], *(replace(each, word="") for each in found[1:])]
    return found


def moment_of(thing: UnhealthyThing) -> str:
    """Word the moment behind a thread's address: its turn, or else the charts."""
    turn = thing.onset.turn
    return f"turns/{turn}?at_turn={turn}" if turn else "paging"


def resident(series: Series, moments: Sequence[Onset]) -> Plot:
    """Draw the resident rate, large, with its goal and the flags of the list."""
    values = _drawn(series, attrgetter("resident_rate"))
    scale = time_plots.shares(values, goal=LEAST_RESIDENT_RATE)
    goal = f"goal {LEAST_RESIDENT_RATE:.2f}"
    return Plot(
        height=LEAD,
        label=f"Resident rate by {_step(series)}, {goal}",
        scale=scale,
        x=_seconds(series),
        series=(Drawn(label="resident rate", hue="c1", values=values),),
        steps=max(1, len(values) - 1),
        ticks=time_plots.heights(scale, LEAD),
        lines=(("c1", time_plots.line(values, scale, LEAD)),),
        area=time_plots.area(values, scale, LEAD),
        goal=(scale.height_of(LEAST_RESIDENT_RATE, LEAD), goal),
        marks=time_plots.marks(moments),
        times=_times(series, moments),
    )


def small(series: Series, moments: Sequence[Onset], *, spent: str) -> dict[str, Plot]:
    """Draw the small charts by their names; `spent` chooses tokens, calls or cost."""
    keys = code_keys(series.whole.refusals)
    return {
        "events": _lines(
            series, moments, "Events", c1=attrgetter("events"), filled=True
        ),
        "spent": _lines(series, moments, *_SPENT[spent], filled=True),
        "faults": _lines(
            series,
            moments,
            "Faults and refaults",
            c1=attrgetter("faults"),
            c2=attrgetter("refaults"),
        ),
        "refusals": _bars(series, moments, keys),
        "latency": _lines(
            series,
            moments,
            "Append latency in milliseconds, p99 and p50,",
            c1=lambda each: each.waited(0.99),
            c3=lambda each: each.waited(0.5),
        ),
    }


def time_of(series: Series, at: datetime) -> str:
    """Say a moment as the axis of times does."""
    return time_plots.clock(at, dated=series.range.bin_width >= timedelta(hours=1))


def _cost(each: Bin) -> float:
    """By the first row of the price table."""
    costs = prefixes.costs(each.tokens, each.count("prefix_tokens"))
    return costs[0].amount if costs else 0.0


_SPENT: dict[str, tuple[str, Figure]] = {
    "tokens": ("Tokens packed", attrgetter("tokens")),
    "calls": ("Model calls", attrgetter("turns")),
    "cost": ("Cost", _cost),
}


#: What the lines of a chart are called, if not as it is.
_NAMES: dict[str, dict[str, str]] = {
    "Faults and refaults": {"c1": "faults", "c2": "refaults"},
    "Append latency in milliseconds, p99 and p50,": {"c1": "p99 ms", "c3": "p50 ms"},
}


def _lines(
    series: Series,
    moments: Sequence[Onset],
    label: str,
    c1: Figure,
    *,
    filled: bool = False,
    **others: Figure,
) -> Plot:
    """Draw figures of each bin, by hue; what lies below the first may be filled."""
    figures, names = {"c1": c1, **others}, _NAMES.get(label, {})
    drawn = {hue: _drawn(series, figure) for hue, figure in figures.items()}
    scale = time_plots.counting(value for values in drawn.values() for value in values)
    return _small(
        series,
        moments,
        f"{label} by {_step(series)}",
        scale,
        drawn=tuple(
            Drawn(label=names.get(hue, label.lower()), hue=hue, values=values)
            for hue, values in drawn.items()
        ),
        lines=tuple(
            (hue, time_plots.line(each, scale, SMALL)) for hue, each in drawn.items()
        ),
        area=time_plots.area(drawn["c1"], scale, SMALL) if filled else "",
    )


def _drawn(series: Series, figure: Figure) -> list[float | None]:
    """Return a figure of each bin; of the one that goes on only if it is all there is.

    It is less than it will be, which would look like a fall.
    """
    *over, last = (figure(each) for each in series.bins)
    return [*over, None if any(over) else last]


def _bars(series: Series, moments: Sequence[Onset], keys: Sequence[CodeKey]) -> Plot:
    """Draw what was refused, a bar a bin, by code."""
    named = {key.code for key in keys}
    parts = [
        (key.hue, [_refused(each, key.code, named) for each in series.bins])
        for key in keys
    ] or [(HUES[0], [0] * len(series.bins))]
    scale = time_plots.counting(float(each.refused) for each in series.bins)
    label = f"Refusals by {_step(series)} and code"
    bars = time_plots.stacks(parts, scale, SMALL)
    words = {key.hue: key.word for key in keys}
    drawn = tuple(
        Drawn(label=words.get(hue, "refusals"), hue=hue, values=counts)
        for hue, counts in parts
    )
    return _small(series, moments, label, scale, drawn=drawn, bars=bars)


def code_keys(counts: Mapping[str, int]) -> tuple[CodeKey, ...]:
    """Return what the hues of refusals stand for, the most frequent code first."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    whole = len(ranked) <= len(HUES)
    shown = ranked if whole else ranked[: len(HUES) - 1]
    keys = [
        CodeKey(hue=hue, code=code, word=word_of(code), count=count)
        for hue, (code, count) in zip(HUES, shown, strict=False)
    ]
    if not whole:
        rest = sum(count for _, count in ranked[len(shown) :])
        keys.append(CodeKey(hue=HUES[-1], code="", word="others", count=rest))
    return tuple(keys)


def _refused(each: Bin, code: str, named: set[str]) -> int:
    if code:
        return each.refusals.get(code, 0)
    return sum(n for word, n in each.refusals.items() if word not in named)


def _small(
    series: Series,
    moments: Sequence[Onset],
    label: str,
    scale: Scale,
    *,
    drawn: tuple[Drawn, ...],
    lines: tuple[tuple[str, str], ...] = (),
    area: str = "",
    bars: tuple[time_plots.Bar, ...] = (),
) -> Plot:
    return Plot(
        height=SMALL,
        label=label,
        scale=scale,
        x=_seconds(series),
        series=drawn,
        steps=max(1, len(series.bins) - 1),
        ticks=time_plots.heights(scale, SMALL),
        lines=lines,
        area=area,
        bars=bars,
        # The first alone: what it is stands beside the chart that leads.
        marks=time_plots.marks(
            Onset(place=each.place, tone=each.tone) for each in moments[:1]
        ),
        times=time_plots.times(series.bins[0].at, series.end),
    )


def _times(
    series: Series, moments: Sequence[Onset]
) -> tuple[tuple[str, str, str], ...]:
    first, last = series.bins[0].at, series.end
    between = [(each.place, first + each.place * (last - first)) for each in moments]
    return time_plots.times(first, last, between)


def _seconds(series: Series) -> list[int]:
    return [int(each.at.timestamp()) for each in series.bins]


def _step(series: Series) -> str:
    minutes = series.range.minutes * series.range.rows
    if minutes == 1:
        return "minute"
    return f"{minutes} minutes" if minutes < 60 else f"{minutes // 60} hours"
