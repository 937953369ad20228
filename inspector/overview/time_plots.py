"""Plots over time, as attributes of SVG elements. Pure.

Places along the time are in percent, heights in pixels, so that text is never
stretched. Only the lines are stretched, in a picture of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

#: Pixels above the highest line, and below the base for the times.
TOP, FOOT = 8, 18
#: Least distance of two flags in a row, in percent, and height of a row, in pixels.
#: Each flag is a link that a finger must be able to hit.
_NEAR, _ROW = 7.0, 25
#: Range from which on the time axis shows dates.
_DATED = timedelta(days=2)

#: Value of each bin; None where a bin has none.
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotScale:
    """Scale from the value at the base to the value at the top, with lines between."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def to_height(self, value: float, height: int) -> float:
        """Convert a value to its place in pixels from the top."""
        bottom = height - FOOT
        share = (value - self.low) / (self.high - self.low)
        return round(bottom - min(1.0, max(0.0, share)) * (bottom - TOP), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackBar:
    """Bar of a stack in one bin."""

    hue: str
    x: str
    width: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnsetPoint:
    """Moment at which a thread became unhealthy; `place` is from 0 to 1."""

    place: float
    tone: str
    #: Number in the list; 0 draws a line without a flag.
    number: int = 0
    word: str = ""
    #: Address of the page that shows the moment.
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnsetFlag:
    """Drawn line and flag of an onset."""

    x: str
    #: Place of the flag, in pixels from the top.
    y: int
    tone: str
    number: int
    word: str
    href: str
    place: float
    #: Whether the word ends at the line, since there is no room after it.
    ends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlotSeries:
    """Series of a plot: its values and its hue."""

    label: str
    hue: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlot:
    """Chart, ready to be rendered."""

    height: int
    label: str
    scale: PlotScale
    #: Beginning of each bin, in seconds of Unix time.
    x: Sequence[int]
    series: tuple[TimePlotSeries, ...]
    #: Width of the picture that holds the lines: one step per bin.
    steps: int
    ticks: tuple[tuple[float, str], ...]
    lines: tuple[tuple[str, str], ...] = ()
    area: str = ""
    bars: tuple[StackBar, ...] = ()
    goal: tuple[float, str] | None = None
    marks: tuple[OnsetFlag, ...] = ()
    times: tuple[tuple[str, str, str], ...] = ()

    @property
    def bottom(self) -> int:
        return self.height - FOOT


def build_data(name: str, plot: TimePlot) -> dict[str, Any]:
    """Build the data from which charts.js draws the interactive chart."""
    first, last = plot.x[0], plot.x[-1]
    return {
        "name": name,
        "label": plot.label,
        "height": plot.height,
        "low": plot.scale.low,
        "top": plot.scale.high,
        "x": plot.x,
        "filled": bool(plot.area),
        "stacked": bool(plot.bars),
        "goal": plot.goal and plot.goal[1],
        "marks": [
            {
                "at": first + each.place * (last - first),
                "top": each.y,
                "tone": each.tone,
                "number": each.number,
                "word": each.word,
                "href": each.href,
            }
            for each in plot.marks
        ],
        "series": [
            {"label": each.label, "hue": each.hue, "values": each.values}
            for each in plot.series
        ],
    }


def build_count_scale(values: Iterable[float | None]) -> PlotScale:
    """Build a scale from 0 that holds the values, with a line in the middle."""
    most = max((value for value in values if value is not None), default=0.0)
    # Costs may be below 1; counts have whole numbers at their lines.
    least = -4 if 0 < most < 1 else 0
    high = next(
        step * 10.0**power
        for power in count(least)
        for step in (2, 4, 6, 8, 10)
        if step * 10.0**power >= most
    )
    ticks = tuple((each, _shorten_value(each)) for each in (0, high / 2, high))
    return PlotScale(low=0.0, high=high, ticks=ticks)


def build_share_scale(values: Values, *, goal: float) -> PlotScale:
    """Build a scale up to 1 that holds the values and leaves room below the goal."""
    least = min([goal, *(value for value in values if value is not None)])
    low = 4 if least >= 0.4 else 0
    lines = range(low, 11, 1 if low else 2)
    ticks = tuple((each / 10, f"{each / 10:.1f}") for each in lines)
    return PlotScale(low=low / 10, high=1.0, ticks=ticks)


def draw_line(values: Values, scale: PlotScale, height: int) -> str:
    """Draw the path through the values; None values are skipped."""
    points_at: list[tuple[float, float]]
    points_at = [(n, value) for n, value in enumerate(values) if value is not None]
    if len(points_at) == 1:
        # A single point would be invisible.
        ((place, value),) = points_at
        points_at = [(place - 0.5, value), (place + 0.5, value)]
    points = [f"{n:g} {scale.to_height(value, height)}" for n, value in points_at]
    return f"M{' L'.join(points)}" if points else ""


def draw_area(values: Values, scale: PlotScale, height: int) -> str:
    """Draw the path around the area below the line."""
    path = draw_line(values, scale, height)
    if not path:
        return ""
    first, last = (path[1:].split(" L")[end].split()[0] for end in (0, -1))
    bottom = height - FOOT
    return f"{path} L{last} {bottom} L{first} {bottom}Z"


def draw_stacks(
    parts: Sequence[tuple[str, Sequence[int]]], scale: PlotScale, height: int
) -> tuple[StackBar, ...]:
    """Draw the stacked bars of each bin; parts are (hue, counts)."""
    bars = []
    for place, counts in enumerate(zip(*(part for _, part in parts), strict=True)):
        below, bins = 0, len(parts[0][1])
        for (hue, _), number in zip(parts, counts, strict=True):
            if not number:
                continue
            y = scale.to_height(below + number, height)
            bars.append(
                StackBar(
                    hue=hue,
                    x=render_percent((place + 0.12) / bins),
                    width=render_percent(0.76 / bins),
                    y=y,
                    height=round(scale.to_height(below, height) - y, 1),
                )
            )
            below += number
    return tuple(bars)


def draw_flags(onsets: Iterable[OnsetPoint]) -> tuple[OnsetFlag, ...]:
    """Draw the flags of onsets, in as many rows as keep flags apart."""
    found: list[OnsetFlag] = []
    rows: list[float] = []
    for each in sorted(onsets, key=lambda onset: onset.place):
        x = each.place * 100
        row = next((n for n, last in enumerate(rows) if x - last >= _NEAR), len(rows))
        rows[row : row + 1] = [x]
        found.append(
            OnsetFlag(
                x=render_percent(each.place),
                y=4 + _ROW * row,
                tone=each.tone,
                number=each.number,
                word=each.word,
                href=each.href,
                place=each.place,
                ends=each.place > 0.5,
            )
        )
    return tuple(found)


def list_times(
    first: datetime, last: datetime, between: Iterable[tuple[float, datetime]] = ()
) -> tuple[tuple[str, str, str], ...]:
    """List (place, anchor, text) of the axis's times: both ends, and one between."""
    dated = last - first > _DATED
    middle = [
        (render_percent(place), "middle", render_clock(at, dated=dated))
        for place, at in between
        if 0.15 < place < 0.85
    ]
    begins = (render_percent(0), "start", render_clock(first, dated=dated))
    return (
        begins,
        *middle[:1],
        (render_percent(1), "end", render_clock(last, dated=dated)),
    )


def render_clock(at: datetime, *, dated: bool = False) -> str:
    """Render a time of the day, or a day if `dated`, in UTC."""
    moment = at.astimezone(UTC)
    return f"{moment.day} {moment:%b}" if dated else f"{moment:%H:%M}"


def list_heights(scale: PlotScale, height: int) -> tuple[tuple[float, str], ...]:
    """List the scale's lines as (pixels from the top, text)."""
    return tuple((scale.to_height(value, height), text) for value, text in scale.ticks)


def render_percent(share: float) -> str:
    return f"{share * 100:.2f}%"


def _shorten_value(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
