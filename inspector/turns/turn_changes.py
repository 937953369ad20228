from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import plots
from inspector.drawing.plots import LinePlot, PlotAxis, PlotSeries, Values
from inspector.lists import visits
from inspector.lists.screens import Context
from inspector.turns import turn_words
from inspector.web import asof
from memoryhub.errors import InvalidError, NotFoundError, NotRecordedError
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import prefixes, turn_diffs
from memoryhub.queries.turns.prefixes import PrefixPoint
from memoryhub.queries.turns.turn_diffs import TurnDiff

#: Block sizes of providers' prompt caches, in tokens; 1 is exact.
BLOCKS = (1, 128, 1024)
#: Pages of a diff that the page lists.
MOST_LISTED = 500


@require_safe
@require_signed_in
def diff(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Show the changes of the working set between two turns, with their causes."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    chosen = asof.read_number(request, "base")
    # The timeline pins an event in `base`: a number from n on is no earlier turn.
    base = n - 1 if chosen is None or chosen >= n else chosen
    found = _find_diff(row, n, base)
    moved = [c for c in found.changes if c.kind != "unchanged"] if found else []
    context: dict[str, Any] = {
        "n": n,
        "from_turn": base,
        "diff": found,
        "counts": [each for each in found.counts.items() if each[1]] if found else (),
        "moved": moved[:MOST_LISTED],
        "more": max(0, len(moved) - MOST_LISTED),
    }
    return visits.render_thread_page(
        request, "inspector/turns/diff.html", visitor, row, context
    )


@require_safe
@require_signed_in
def show_prefix(
    request: HttpRequest, project: str, thread: str, n: int
) -> HttpResponse:
    """Show how much of a turn's request a provider could cache, and what ended that."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    block = _parse_block(request)
    context: dict[str, Any] = {
        "n": n,
        **get_prefix(row, n, block=block),
        "in_blocks": block,
        "blocks": BLOCKS,
    }
    return visits.render_thread_page(
        request, "inspector/turns/prefix.html", visitor, row, context
    )


@require_safe
@require_signed_in
def show_prefixes(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the share of each request that repeats the one before, turn by turn."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    block = _parse_block(request)
    points = prefixes.list_points(row, block=block)
    drawn = _draw_plots(points)
    context = {
        "points": points[::-1],
        "in_blocks": block,
        "blocks": BLOCKS,
        "plots": drawn,
        "drawn": orjson.dumps(
            [plots.build_chart_data(each) for each in drawn]
        ).decode(),
    }
    template = "inspector/turns/prefixes.html"
    return visits.render_thread_page(request, template, visitor, row, context)


def _find_diff(row: Thread, n: int, base: int) -> TurnDiff | None:
    """Compare two turns; None without an earlier turn, or if either is not recorded."""
    if base < 1:
        return None
    try:
        return turn_diffs.get_diff(row, n, base=base)
    except NotRecordedError:
        return None


def get_prefix(row: Thread, n: int, *, block: int = 1) -> Context:
    """Compare a turn's request with the request before, if both are recorded."""
    try:
        lens = prefixes.get_lens(row, n, block=block)
    except NotRecordedError:
        return {"lens": None}
    return {"lens": lens, "prefix_cause": turn_words.PREFIX_CAUSES.get(lens.cause, "")}


def _parse_block(request: HttpRequest) -> int:
    block = asof.read_number(request, "block") or BLOCKS[0]
    if block not in BLOCKS:
        raise InvalidError(loc="block")
    return block


def _draw_plots(points: Sequence[PrefixPoint]) -> list[LinePlot]:
    """Draw the turns' shares of repeated prefix and their packed tokens."""
    axis = PlotAxis(
        name="turn",
        x=[point.turn for point in points],
        seqs=[point.seq for point in points],
    )
    shares = _build_series("unchanged share", "good", [point.share for point in points])
    tokens = _build_series("packed tokens", "user", [point.tokens for point in points])
    return [
        plots.draw_plot(
            "share", "Unchanged share of the request", axis, [shares], most=1
        ),
        plots.draw_plot("tokens", "Packed tokens", axis, [tokens]),
    ]


def _build_series(label: str, hue: str, values: Values) -> PlotSeries:
    return PlotSeries(label=label, hue=hue, means=values, lows=values, highs=values)
