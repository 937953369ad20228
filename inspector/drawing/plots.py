"""Plots over turns or events: series as the numbers that a picture is made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

#: Units of the picture, which is stretched to its place.
WIDTH, HEIGHT = 1_000, 130
#: With fewer points each is marked.
MARKED = 16
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line, and between which values it ran."""

    label: str
    #: A word of the stylesheet.
    hue: str
    means: Values
    lows: Values
    highs: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A series as it is drawn."""

    label: str
    hue: str
    path: str
    band: str
    #: Where each point is, in per cent and units; none where there are many.
    points: tuple[tuple[float, float], ...]
    newest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What series go along: turns or events, with the last event of each point."""

    name: str
    x: Sequence[int]
    seqs: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart with its axes."""

    name: str
    title: str
    axis: Axis
    lines: tuple[Line, ...]
    #: (per cent, label) and (units, label).
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    series: Sequence[Series]
    top: float


def plot(
    name: str,
    title: str,
    axis: Axis,
    series: Sequence[Series],
    *,
    most: float | None = None,
) -> Plot:
    """Draw series along an axis; `most` is the top of the other, if not what fits."""
    highest = max((v for s in series for v in s.highs if v is not None), default=0.0)
    top, x = most or rounded(highest), axis.x
    low, high = (x[0], x[-1]) if x else (0, 0)

    def place(value: int) -> float:
        return round(100 * (value - low) / (high - low), 2) if high > low else 50.0

    middle = x[len(x) // 2] if len(x) > 2 else None
    shown = [*dict.fromkeys(each for each in (low, middle, high) if each is not None)]
    across = [place(each) for each in x]
    return Plot(
        name=name,
        title=title,
        axis=axis,
        lines=tuple(_line(each, across, top) for each in series),
        x_ticks=tuple((place(each), f"{each:,}") for each in shown if x),
        y_ticks=tuple((_y(each, top), f"{each:g}") for each in (0, top / 2, top)),
        series=series,
        top=top,
    )


def data(drawn: Plot) -> dict[str, Any]:
    """What charts.js draws anew where one can point at it."""
    return {
        "name": drawn.name,
        "by": drawn.axis.name,
        "top": drawn.top,
        "x": drawn.axis.x,
        "seqs": drawn.axis.seqs,
        "series": [
            {
                "label": each.label,
                "hue": each.hue,
                "values": each.means,
                "lows": each.lows,
                "highs": each.highs,
            }
            for each in drawn.series
        ],
    }


def rounded(value: float) -> float:
    """Return the next of 1, 2, 5, 10, … above a value."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _line(series: Series, across: Sequence[float], top: float) -> Line:
    found = [
        (x, mean, low, high)
        for x, mean, low, high in zip(
            across, series.means, series.lows, series.highs, strict=True
        )
        if mean is not None and low is not None and high is not None
    ]
    path = _path([(x, mean) for x, mean, _, _ in found], top)
    there = [(x, high) for x, _, _, high in found]
    back = [(x, low) for x, _, low, _ in reversed(found)]
    spread = any(low != high for _, _, low, high in found)
    points = tuple((x, _y(mean, top)) for x, mean, _, _ in found)
    return Line(
        label=series.label,
        hue=series.hue,
        path=path,
        band=f"{_path([*there, *back], top)}Z" if spread else "",
        points=points if len(points) <= MARKED else (),
        newest=found[-1][1] if found else None,
    )


def _path(points: Sequence[tuple[float, float]], top: float) -> str:
    return "".join(
        f"{'L' if n else 'M'}{x * WIDTH / 100:g} {_y(value, top):g}"
        for n, (x, value) in enumerate(points)
    )


def _y(value: float, top: float) -> float:
    return round(HEIGHT * (1 - min(value, top) / top), 1)
