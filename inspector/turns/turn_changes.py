from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import plots
from inspector.drawing.plots import Axis, Plot, Series, Values
from inspector.lists import visits
from inspector.lists.screens import Context
from inspector.turns import turn_words
from inspector.web import asof
from memoryhub.errors import InvalidError, NotFoundError, NotRecordedError
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import prefixes, turn_diffs
from memoryhub.queries.turns.prefixes import Point
from memoryhub.queries.turns.turn_diffs import TurnDiff

#: Bytes that providers keep prompts by, in tokens; 1 is exact.
BLOCKS = (1, 128, 1024)
#: Pages of a diff that are listed one by one.
MOST_LISTED = 500


@require_safe
@signed_in
def diff(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Show what became of the working set from one turn to a later one, and by what."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    chosen = asof.number(request, "base")
    # What is pinned on the timeline is an event: a base beyond is no earlier turn.
    base = n - 1 if chosen is None or chosen >= n else chosen
    found = _diff(row, n, base)
    moved = [c for c in found.changes if c.kind != "unchanged"] if found else []
    context: dict[str, Any] = {
        "n": n,
        "from_turn": base,
        "diff": found,
        "counts": [each for each in found.counts.items() if each[1]] if found else (),
        "moved": moved[:MOST_LISTED],
        "more": max(0, len(moved) - MOST_LISTED),
    }
    return visits.thread_page(
        request, "inspector/turns/diff.html", visitor, row, context
    )


@require_safe
@signed_in
def prefix(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Show how much of a turn's request a provider could keep, and what broke it."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    block = _block(request)
    context: dict[str, Any] = {
        "n": n,
        **get_prefix(row, n, block=block),
        "in_blocks": block,
        "blocks": BLOCKS,
    }
    return visits.thread_page(
        request, "inspector/turns/prefix.html", visitor, row, context
    )


@require_safe
@signed_in
def prefix_series(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the share of each request that was as before, turn by turn."""
    visitor = access.find_visitor(request, project)
    row = access.find_thread(visitor, thread)
    block = _block(request)
    points = prefixes.list_points(row, block=block)
    drawn = _plots(points)
    context = {
        "points": points[::-1],
        "in_blocks": block,
        "blocks": BLOCKS,
        "plots": drawn,
        "drawn": orjson.dumps([plots.data(each) for each in drawn]).decode(),
    }
    template = "inspector/turns/prefixes.html"
    return visits.thread_page(request, template, visitor, row, context)


def _diff(row: Thread, n: int, base: int) -> TurnDiff | None:
    """Compare two turns; None without one before, or where one was not recorded."""
    if base < 1:
        return None
    try:
        return turn_diffs.get_diff(row, n, base=base)
    except NotRecordedError:
        return None


def get_prefix(row: Thread, n: int, *, block: int = 1) -> Context:
    """Compare a turn with the one before, if both were recorded."""
    try:
        lens = prefixes.get_lens(row, n, block=block)
    except NotRecordedError:
        return {"lens": None}
    return {"lens": lens, "prefix_cause": turn_words.PREFIX_CAUSES.get(lens.cause, "")}


def _block(request: HttpRequest) -> int:
    block = asof.number(request, "block") or BLOCKS[0]
    if block not in BLOCKS:
        raise InvalidError(loc="block")
    return block


def _plots(points: Sequence[Point]) -> list[Plot]:
    """Draw what the turns of a series had as before, and what they packed."""
    axis = Axis(
        name="turn",
        x=[point.turn for point in points],
        seqs=[point.seq for point in points],
    )
    shares = _series("share as before", "good", [point.share for point in points])
    tokens = _series("packed tokens", "user", [point.tokens for point in points])
    return [
        plots.plot("share", "Share of the request as before", axis, [shares], most=1),
        plots.plot("tokens", "Packed tokens", axis, [tokens]),
    ]


def _series(label: str, hue: str, values: Values) -> Series:
    return Series(label=label, hue=hue, means=values, lows=values, highs=values)
