"""Charts of miss-ratio curves, and the table of policies and budgets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from inspector.drawing import plots
from inspector.drawing.plots import LinePlot, PlotAxis, PlotSeries
from memoryhub.kernel.paging.policy_runs import PolicyRun
from memoryhub.kernel.state.policies import POLICIES
from memoryhub.queries.paging.curves import PagingCurves

#: Lines of the chart: label, colour and field of a point.
_LINES = (
    ("LRU", "user", "lru"),
    ("SIEVE", "evicted", "sieve"),
    ("least possible (Bélády)", "good", "least"),
)


def build_context(found: PagingCurves) -> dict[str, Any]:
    """Build the context of the page of curves."""
    return {
        "curves": found,
        "plot": draw_curves(found),
        "policies": [*POLICIES],
        "budgets": _group_by_budget(found.runs),
    }


def draw_curves(found: PagingCurves) -> LinePlot:
    """Draw misses by size; sizes stand at even distances, as they double."""
    sizes = [point.size for point in found.points]
    places = range(len(sizes))
    own = [
        point.lru if point.size == found.tlb_entries else None for point in found.points
    ]
    axis = PlotAxis(name="entries of the TLB", x=places, seqs=places)
    series = [
        _build_series(label, hue, [getattr(point, name) for point in found.points])
        for label, hue, name in _LINES
    ]
    series.append(_build_series(f"recorded, at {found.tlb_entries:,}", "attn", own))
    plot = plots.draw_plot("curves", "Misses by size of the TLB", axis, series)
    last = max(1, len(sizes) - 1)
    ticks = tuple(
        (round(100 * at / last, 2) if len(sizes) > 1 else 50.0, f"{size:,}")
        for at, size in enumerate(sizes)
    )
    return replace(plot, x_ticks=ticks)


def _build_series(label: str, hue: str, values: Sequence[int | None]) -> PlotSeries:
    return PlotSeries(label=label, hue=hue, means=values, lows=values, highs=values)


def _group_by_budget(
    runs: Sequence[PolicyRun],
) -> list[tuple[int, list[PolicyRun]]]:
    by_budget = groupby(runs, key=lambda run: run.budget_tokens)
    return [(budget, [*each]) for budget, each in by_budget]
