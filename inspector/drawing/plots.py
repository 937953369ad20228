"""Plots over turns or events: series as the numbers of an SVG picture. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

#: Units of the picture, which the page stretches to fit.
WIDTH, HEIGHT = 1_000, 130
#: Most points of a line whose points are marked one by one.
MAX_MARKED_POINTS = 16
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotSeries:
    """The values of a line: mean, least and most at each point of the axis."""

    label: str
    #: A colour name of the stylesheet.
    hue: str
    means: Values
    lows: Values
    highs: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    """A series as it is drawn."""

    label: str
    hue: str
    path: str
    band: str
    #: Place of each point, in per cent and units; empty beyond `MAX_MARKED_POINTS`.
    points: tuple[tuple[float, float], ...]
    newest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotAxis:
    """The horizontal axis: turns or events, with the last event of each point."""

    name: str
    x: Sequence[int]
    seqs: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """A chart with its axes."""

    name: str
    title: str
    axis: PlotAxis
    lines: tuple[PlotLine, ...]
    #: (per cent, label) and (units, label).
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    series: Sequence[PlotSeries]
    top: float


def draw_plot(
    name: str,
    title: str,
    axis: PlotAxis,
    series: Sequence[PlotSeries],
    *,
    most: float | None = None,
) -> LinePlot:
    """Draw series along an axis; `most` is the top of the plot, else a rounded one."""
    highest = max((v for s in series for v in s.highs if v is not None), default=0.0)
    top, x = most or round_up(highest), axis.x
    low, high = (x[0], x[-1]) if x else (0, 0)

    def to_percent(value: int) -> float:
        return round(100 * (value - low) / (high - low), 2) if high > low else 50.0

    middle = x[len(x) // 2] if len(x) > 2 else None
    shown = [*dict.fromkeys(each for each in (low, middle, high) if each is not None)]
    across = [to_percent(each) for each in x]
    return LinePlot(
        name=name,
        title=title,
        axis=axis,
        lines=tuple(_draw_line(each, across, top) for each in series),
        x_ticks=tuple((to_percent(each), f"{each:,}") for each in shown if x),
        y_ticks=tuple((_to_y(each, top), f"{each:g}") for each in (0, top / 2, top)),
        series=series,
        top=top,
    )


def build_chart_data(drawn: LinePlot) -> dict[str, Any]:
    """Build the JSON from which charts.js redraws a plot that readers can point at."""
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


def round_up(value: float) -> float:
    """Round a value up to the next of 1, 2, 5, 10, …"""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _draw_line(series: PlotSeries, across: Sequence[float], top: float) -> PlotLine:
    found = [
        (x, mean, low, high)
        for x, mean, low, high in zip(
            across, series.means, series.lows, series.highs, strict=True
        )
        if mean is not None and low is not None and high is not None
    ]
    path = _draw_path([(x, mean) for x, mean, _, _ in found], top)
    there = [(x, high) for x, _, _, high in found]
    back = [(x, low) for x, _, low, _ in reversed(found)]
    spread = any(low != high for _, _, low, high in found)
    points = tuple((x, _to_y(mean, top)) for x, mean, _, _ in found)
    return PlotLine(
        label=series.label,
        hue=series.hue,
        path=path,
        band=f"{_draw_path([*there, *back], top)}Z" if spread else "",
        points=points if len(points) <= MAX_MARKED_POINTS else (),
        newest=found[-1][1] if found else None,
    )


def _draw_path(points: Sequence[tuple[float, float]], top: float) -> str:
    return "".join(
        f"{'L' if n else 'M'}{x * WIDTH / 100:g} {_to_y(value, top):g}"
        for n, (x, value) in enumerate(points)
    )


def _to_y(value: float, top: float) -> float:
    return round(HEIGHT * (1 - min(value, top) / top), 1)
