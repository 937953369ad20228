"""Plots over time: what a chart is drawn of, as attributes of SVG. Pure.

Places along the time are in percent, heights in pixels, so that text is never
stretched; lines alone are, in a picture of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

#: Pixels above the highest line, and below the base for the times.
TOP, FOOT = 8, 18
#: Flags that stand nearer than this to each other get a row of their own: each is a
#: link that a finger has to meet.
_NEAR, _ROW = 7.0, 25
#: A time scale of so many days is told in dates.
_DATED = timedelta(days=2)

#: Of each bin; None where there is nothing to tell.
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From which value at the base to which at the top, and the lines between."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def height_of(self, value: float, height: int) -> float:
        """Return where a value lies, in pixels from above."""
        bottom = height - FOOT
        share = (value - self.low) / (self.high - self.low)
        return round(bottom - min(1.0, max(0.0, share)) * (bottom - TOP), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of a stack in one bin."""

    hue: str
    x: str
    width: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """A moment at which something began, where it lies from 0 to 1."""

    place: float
    tone: str
    #: By which the list knows it; 0 for a line alone.
    number: int = 0
    word: str = ""
    #: Where the moment is seen.
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An onset as it is drawn."""

    x: str
    #: Of the flag.
    y: int
    tone: str
    number: int
    word: str
    href: str
    place: float
    #: The word ends at the mark, for there is no room behind it.
    ends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A series with its hue, in numbers."""

    label: str
    hue: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart, ready to be written down."""

    height: int
    label: str
    scale: Scale
    #: When each bin begins, in seconds of Unix time.
    x: Sequence[int]
    series: tuple[Drawn, ...]
    #: How wide the picture is that holds the lines: a step a bin.
    steps: int
    ticks: tuple[tuple[float, str], ...]
    lines: tuple[tuple[str, str], ...] = ()
    area: str = ""
    bars: tuple[Bar, ...] = ()
    goal: tuple[float, str] | None = None
    marks: tuple[Mark, ...] = ()
    times: tuple[tuple[str, str, str], ...] = ()

    @property
    def bottom(self) -> int:
        return self.height - FOOT


def data(name: str, plot: Plot) -> dict[str, Any]:
    """What charts.js draws anew where one can point at it."""
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


def counting(values: Iterable[float | None]) -> Scale:
    """Return a scale from 0 that holds the values, with a line in the middle."""
    most = max((value for value in values if value is not None), default=0.0)
    # Costs are small; counts have whole numbers at their lines.
    least = -4 if 0 < most < 1 else 0
    high = next(
        step * 10.0**power
        for power in count(least)
        for step in (2, 4, 6, 8, 10)
        if step * 10.0**power >= most
    )
    ticks = tuple((each, _short(each)) for each in (0, high / 2, high))
    return Scale(low=0.0, high=high, ticks=ticks)


def shares(values: Values, *, goal: float) -> Scale:
    """Return a scale up to 1 that holds the values and leaves room below the goal."""
    least = min([goal, *(value for value in values if value is not None)])
    low = 4 if least >= 0.4 else 0
    lines = range(low, 11, 1 if low else 2)
    ticks = tuple((each / 10, f"{each / 10:.1f}") for each in lines)
    return Scale(low=low / 10, high=1.0, ticks=ticks)


def line(values: Values, scale: Scale, height: int) -> str:
    """Return the path through the values; what is unknown is passed over."""
    points_at: list[tuple[float, float]]
    points_at = [(n, value) for n, value in enumerate(values) if value is not None]
    if len(points_at) == 1:
        # A point alone would not be seen.
        ((place, value),) = points_at
        points_at = [(place - 0.5, value), (place + 0.5, value)]
    points = [f"{n:g} {scale.height_of(value, height)}" for n, value in points_at]
    return f"M{' L'.join(points)}" if points else ""


def area(values: Values, scale: Scale, height: int) -> str:
    """Return the path around what lies below the line."""
    path = line(values, scale, height)
    if not path:
        return ""
    first, last = (path[1:].split(" L")[end].split()[0] for end in (0, -1))
    bottom = height - FOOT
    return f"{path} L{last} {bottom} L{first} {bottom}Z"


def stacks(
    parts: Sequence[tuple[str, Sequence[int]]], scale: Scale, height: int
) -> tuple[Bar, ...]:
    """Return the bars of each bin, one above the other; parts are (hue, counts)."""
    bars = []
    for place, counts in enumerate(zip(*(part for _, part in parts), strict=True)):
        below, bins = 0, len(parts[0][1])
        for (hue, _), number in zip(parts, counts, strict=True):
            if not number:
                continue
            y = scale.height_of(below + number, height)
            bars.append(
                Bar(
                    hue=hue,
                    x=percent((place + 0.12) / bins),
                    width=percent(0.76 / bins),
                    y=y,
                    height=round(scale.height_of(below, height) - y, 1),
                )
            )
            below += number
    return tuple(bars)


def marks(onsets: Iterable[Onset]) -> tuple[Mark, ...]:
    """Return where the flags stand: beside each other in rows, none upon another."""
    found: list[Mark] = []
    rows: list[float] = []
    for each in sorted(onsets, key=lambda onset: onset.place):
        x = each.place * 100
        row = next((n for n, last in enumerate(rows) if x - last >= _NEAR), len(rows))
        rows[row : row + 1] = [x]
        found.append(
            Mark(
                x=percent(each.place),
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


def times(
    first: datetime, last: datetime, between: Iterable[tuple[float, datetime]] = ()
) -> tuple[tuple[str, str, str], ...]:
    """Return (place, anchor, text) of the times below: both ends, and some between."""
    dated = last - first > _DATED
    middle = [
        (percent(place), "middle", clock(at, dated=dated))
        for place, at in between
        if 0.15 < place < 0.85
    ]
    begins = (percent(0), "start", clock(first, dated=dated))
    return (begins, *middle[:1], (percent(1), "end", clock(last, dated=dated)))


def clock(at: datetime, *, dated: bool = False) -> str:
    """Return a time of the day, or a day, in UTC."""
    moment = at.astimezone(UTC)
    return f"{moment.day} {moment:%b}" if dated else f"{moment:%H:%M}"


def heights(scale: Scale, height: int) -> tuple[tuple[float, str], ...]:
    """Return the scale's lines as they are drawn."""
    return tuple((scale.height_of(value, height), text) for value, text in scale.ticks)


def percent(share: float) -> str:
    return f"{share * 100:.2f}%"


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
