"""Charts of the overview: a series, and the onsets of the list, as plots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter

from inspector.overview import time_plots
from inspector.overview.time_plots import (
    OnsetPoint,
    PlotScale,
    TimePlot,
    TimePlotSeries,
)
from memoryhub.queries.overview.series import ActivityBin, ActivitySeries
from memoryhub.queries.overview.unhealthy import UnhealthyItem
from memoryhub.queries.turns.prices import PriceTable

Figure = Callable[[ActivityBin], float | None]
#: Height in pixels of the small charts.
SMALL = 104
#: Least and greatest height in pixels of the leading chart, and what each further thing
#: of the list beside the chart adds: a short list leaves no hole.
_LEAD_LEAST, _LEAD_MOST, _LEAD_EACH = 140, 326, 62
#: Hues of the most frequent refusal codes; all other codes share the last hue.
HUES = ("b1", "b2", "b3")
_WORDS = {
    "fault_budget": "no faults left",
    "fault_tokens": "no fault tokens left",
    "fault_confidence": "too uncertain",
    "no_room": "no room",
    "page_unknown": "unknown page",
    "page_erased": "erased page",
    "not_found": "not found",
    "subject_restricted": "person restricted",
}
_BEGINS = {
    "thrashing": "begins to thrash",
    "faulting": "begins to fetch",
    "refused": "is refused fetches",
    "full": "is over 90 % full",
    "missing": "misses the TLB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeKey:
    """Code in the legend of refusals."""

    hue: str
    #: Empty for the entry of all other codes.
    code: str
    word: str
    count: int


def describe_code(code: str) -> str:
    """Describe a refusal code in words."""
    return _WORDS.get(code, code.replace("_", " "))


def list_onsets(
    series: ActivitySeries, things: Sequence[UnhealthyItem], threads: str
) -> list[OnsetPoint]:
    """List the onsets of the list that lie in the range, with the list's numbers.

    `threads` is the address of the list of threads.
    """
    found = []
    for number, thing in enumerate(things, start=1):
        if thing.thread is None or thing.onset.at is None:
            continue
        place = series.find_position(thing.onset.at)
        if place is not None:
            found.append(
                OnsetPoint(
                    place=place,
                    tone=thing.tone,
                    number=number,
                    word=f"{thing.thread.name} {_BEGINS[thing.verdicts[0].flag]}",
                    href=f"{threads}/{thing.thread.name}/{build_moment_path(thing)}",
                )
            )
    if found:
        # Only the worst, which the list begins with, is labelled.
        found = [found[0], *(replace(each, word="") for each in found[1:])]
    return found


def build_moment_path(thing: UnhealthyItem) -> str:
    """Build the path of the onset below a thread's address: its turn, or the charts."""
    turn = thing.onset.turn
    return f"turns/{turn}?at_turn={turn}" if turn else "paging"


def draw_resident(
    series: ActivitySeries, moments: Sequence[OnsetPoint], *, goal: float, things: int
) -> TimePlot:
    """Draw the leading chart: the resident rate with its goal and the list's flags.

    `things` is the length of the list beside the chart.
    """
    height = min(_LEAD_MOST, _LEAD_LEAST + _LEAD_EACH * max(0, things - 1))
    values = _compute_values(series, attrgetter("resident_rate"))
    scale = time_plots.build_share_scale(values, goal=goal)
    word = f"goal {goal:.2f}"
    return TimePlot(
        height=height,
        label=f"Resident rate by {_describe_step(series)}, {word}",
        scale=scale,
        x=_list_seconds(series),
        series=(TimePlotSeries(label="resident rate", hue="c1", values=values),),
        steps=max(1, len(values) - 1),
        ticks=time_plots.list_heights(scale, height),
        lines=(("c1", time_plots.draw_line(values, scale, height)),),
        area=time_plots.draw_area(values, scale, height),
        goal=(scale.to_height(goal, height), word),
        marks=time_plots.draw_flags(moments),
        times=_list_times(series, moments),
    )


def draw_small(
    series: ActivitySeries,
    moments: Sequence[OnsetPoint],
    *,
    spent: str,
    prices: PriceTable,
) -> dict[str, TimePlot]:
    """Draw the small charts, by name; `spent` chooses tokens, calls or cost."""
    spending: dict[str, tuple[str, Figure]] = {
        "tokens": ("Tokens packed", attrgetter("tokens")),
        "calls": ("Model calls", attrgetter("turns")),
        "cost": ("Cost", partial(_compute_amount, prices)),
    }
    return {
        "events": _draw_lines(
            series, moments, "Events", c1=attrgetter("events"), filled=True
        ),
        "spent": _draw_lines(series, moments, *spending[spent], filled=True),
        "faults": _draw_lines(
            series,
            moments,
            "Faults and refaults",
            c1=attrgetter("faults"),
            c2=attrgetter("refaults"),
        ),
        "refusals": draw_refusals(series, moments),
        "latency": _draw_lines(
            series,
            moments,
            "Append latency in milliseconds, p99 and p50,",
            c1=lambda each: each.compute_wait(0.99),
            c3=lambda each: each.compute_wait(0.5),
        ),
        "answers": _draw_lines(
            series,
            moments,
            "Model latency in milliseconds, p95 and p50,",
            c1=lambda each: each.compute_answer_time(0.95),
            c3=lambda each: each.compute_answer_time(0.5),
        ),
    }


def render_time(series: ActivitySeries, at: datetime) -> str:
    """Render an instant as the time axis does."""
    return time_plots.render_clock(
        at, dated=series.range.bin_width >= timedelta(hours=1)
    )


def _compute_amount(prices: PriceTable, each: ActivityBin) -> float:
    """Compute the amount of a bin's cost; 0 without prices."""
    cost = each.compute_cost(prices)
    return cost.amount if cost else 0.0


#: Names of a chart's lines, by label and hue, where they differ from the label.
_NAMES: dict[str, dict[str, str]] = {
    "Faults and refaults": {"c1": "faults", "c2": "refaults"},
    "Append latency in milliseconds, p99 and p50,": {"c1": "p99 ms", "c3": "p50 ms"},
    "Model latency in milliseconds, p95 and p50,": {"c1": "p95 ms", "c3": "p50 ms"},
}


def _draw_lines(
    series: ActivitySeries,
    moments: Sequence[OnsetPoint],
    label: str,
    c1: Figure,
    *,
    filled: bool = False,
    **others: Figure,
) -> TimePlot:
    """Draw a line per hue from each bin's figures; `filled` fills below the first."""
    figures, names = {"c1": c1, **others}, _NAMES.get(label, {})
    drawn = {hue: _compute_values(series, figure) for hue, figure in figures.items()}
    scale = time_plots.build_count_scale(
        value for values in drawn.values() for value in values
    )
    return _build_small_plot(
        series,
        moments,
        f"{label} by {_describe_step(series)}",
        scale,
        drawn=tuple(
            TimePlotSeries(label=names.get(hue, label.lower()), hue=hue, values=values)
            for hue, values in drawn.items()
        ),
        lines=tuple(
            (hue, time_plots.draw_line(each, scale, SMALL))
            for hue, each in drawn.items()
        ),
        area=time_plots.draw_area(drawn["c1"], scale, SMALL) if filled else "",
    )


def _compute_values(series: ActivitySeries, figure: Figure) -> list[float | None]:
    """Compute a figure of each bin; None for the last bin if an earlier one has any.

    The last bin is not complete yet, so its value would look like a fall.
    """
    *over, last = (figure(each) for each in series.bins)
    return [*over, None if any(over) else last]


def draw_refusals(series: ActivitySeries, moments: Sequence[OnsetPoint]) -> TimePlot:
    """Draw the refusals by code, one stacked bar per bin."""
    keys = list_code_keys(series.whole.refusals)
    named = {key.code for key in keys}
    parts = [
        (key.hue, [_count_refused(each, key.code, named) for each in series.bins])
        for key in keys
    ] or [(HUES[0], [0] * len(series.bins))]
    scale = time_plots.build_count_scale(float(each.refused) for each in series.bins)
    label = f"Refusals by {_describe_step(series)} and code"
    bars = time_plots.draw_stacks(parts, scale, SMALL)
    words = {key.hue: key.word for key in keys}
    drawn = tuple(
        TimePlotSeries(label=words.get(hue, "refusals"), hue=hue, values=counts)
        for hue, counts in parts
    )
    return _build_small_plot(series, moments, label, scale, drawn=drawn, bars=bars)


def list_code_keys(counts: Mapping[str, int]) -> tuple[CodeKey, ...]:
    """List the legend of refusals, the most frequent code first."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    whole = len(ranked) <= len(HUES)
    shown = ranked if whole else ranked[: len(HUES) - 1]
    keys = [
        CodeKey(hue=hue, code=code, word=describe_code(code), count=count)
        for hue, (code, count) in zip(HUES, shown, strict=False)
    ]
    if not whole:
        rest = sum(count for _, count in ranked[len(shown) :])
        keys.append(CodeKey(hue=HUES[-1], code="", word="others", count=rest))
    return tuple(keys)


def _count_refused(each: ActivityBin, code: str, named: set[str]) -> int:
    if code:
        return each.refusals.get(code, 0)
    return sum(n for word, n in each.refusals.items() if word not in named)


def _build_small_plot(
    series: ActivitySeries,
    moments: Sequence[OnsetPoint],
    label: str,
    scale: PlotScale,
    *,
    drawn: tuple[TimePlotSeries, ...],
    lines: tuple[tuple[str, str], ...] = (),
    area: str = "",
    bars: tuple[time_plots.StackBar, ...] = (),
) -> TimePlot:
    return TimePlot(
        height=SMALL,
        label=label,
        scale=scale,
        x=_list_seconds(series),
        series=drawn,
        steps=max(1, len(series.bins) - 1),
        ticks=time_plots.list_heights(scale, SMALL),
        lines=lines,
        area=area,
        bars=bars,
        # Only the first onset; its label stands in the leading chart.
        marks=time_plots.draw_flags(
            OnsetPoint(place=each.place, tone=each.tone) for each in moments[:1]
        ),
        times=time_plots.list_times(series.bins[0].at, series.end),
    )


def _list_times(
    series: ActivitySeries, moments: Sequence[OnsetPoint]
) -> tuple[tuple[str, str, str], ...]:
    first, last = series.bins[0].at, series.end
    between = [(each.place, first + each.place * (last - first)) for each in moments]
    return time_plots.list_times(first, last, between)


def _list_seconds(series: ActivitySeries) -> list[int]:
    return [int(each.at.timestamp()) for each in series.bins]


def _describe_step(series: ActivitySeries) -> str:
    minutes = series.range.minutes * series.range.rows
    if minutes == 1:
        return "minute"
    return f"{minutes} minutes" if minutes < 60 else f"{minutes // 60} hours"
