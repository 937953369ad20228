from __future__ import annotations

from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.web import asof, shell
from memoryhub.errors import InvalidError, NotFoundError, NotRecordedError
from memoryhub.kernel.packing.prefixes import OrderError
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import prefixes, turn_diffs
from memoryhub.queries.turns.prefixes import Lens, Point
from memoryhub.queries.turns.turn_diffs import TurnDiff

#: Bytes that providers keep prompts by, in tokens; 1 is exact.
BLOCKS = (1, 128, 1024)
#: Pages of a diff that are told one by one.
TOLD = 500


@require_safe
@signed_in
def diff(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """What became of the working set from one turn to a later one, and by what."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    asked = asof.number(request, "base")
    # What is pinned on the timeline is an event: a base beyond is no earlier turn.
    base = n - 1 if asked is None or asked >= n else asked
    found = _diff(row, n, base)
    moved = [c for c in found.changes if c.kind != "unchanged"] if found else []
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        "n": n,
        "from_turn": base,
        "diff": found,
        "counts": [each for each in found.counts.items() if each[1]] if found else (),
        "moved": moved[:TOLD],
        "more": max(0, len(moved) - TOLD),
    }
    return shell.page(
        request, "inspector/turns/diff.html", context, place=place, section="threads"
    )


@require_safe
@signed_in
def prefix(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """How much of a turn's request a provider could keep, and what broke it."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    if not 1 <= n <= row.turn_count:
        raise NotFoundError
    block, order = _block(request), request.GET.get("order", "")
    context: dict[str, Any] = {
        **panels.shared(Scene(thread=row)),
        "n": n,
        "lens": _lens(row, n, order=order, block=block),
        "order": order,
        "in_blocks": block,
        "blocks": BLOCKS,
    }
    return shell.page(
        request, "inspector/turns/prefix.html", context, place=place, section="threads"
    )


@require_safe
@signed_in
def prefix_series(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The share of each request that was as before, turn by turn."""
    place = access.find_place(request, project)
    row = access.find_thread(place, thread)
    block = _block(request)
    points = prefixes.list_points(row, block=block)
    shared = panels.shared(Scene(thread=row))
    context: dict[str, Any] = {
        **shared,
        "points": points[::-1],
        "in_blocks": block,
        "blocks": BLOCKS,
        "drawn": orjson.dumps(_drawn(points)).decode(),
    }
    return shell.page(
        request,
        "inspector/turns/prefixes.html",
        context,
        place=place,
        section="threads",
    )


def _diff(row: Thread, n: int, base: int) -> TurnDiff | None:
    """None when there is no turn before, or one of the two was not recorded."""
    if base < 1:
        return None
    try:
        return turn_diffs.get_diff(row, n, base=base)
    except NotRecordedError:
        return None


def _lens(row: Thread, n: int, *, order: str, block: int) -> Lens | None:
    try:
        return prefixes.get_lens(
            row, n, order=tuple(order.split(",")) if order else (), block=block
        )
    except OrderError:
        raise InvalidError(loc="order") from None
    except NotRecordedError:
        return None


def _block(request: HttpRequest) -> int:
    block = asof.number(request, "block") or BLOCKS[0]
    if block not in BLOCKS:
        raise InvalidError(loc="block")
    return block


def _drawn(points: list[Point]) -> dict[str, Any]:
    shares = [point.share for point in points]
    line = {"label": "share as before", "hue": "good", "values": shares}
    tokens = {
        "label": "packed tokens",
        "hue": "user",
        "values": [point.tokens for point in points],
    }
    return {
        "x": [point.seq for point in points],
        "charts": {
            "share": {"most": 1, "series": [line]},
            "tokens": {"series": [tokens]},
        },
    }
