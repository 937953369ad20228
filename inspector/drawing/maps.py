"""Maps: the size of a thread's working set over its events, as SVG numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryhub.queries.paging.working_set_maps import Stretches, WorkingSetMap

#: Width of the picture's paths in units, and height in pixels.
WIDTH, HEIGHT = 1_000, 46
#: Top of the map, as a multiple of the threshold beyond which pages leave.
_TOP_FACTOR = 1.15
#: Every fifth turn is numbered; with at most ten turns, each.
_NUMBERED, _FEW = 5, 10
#: Most rows of the table that stands in for the map.
MAX_ROWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBand:
    """A horizontal band of the map, in per cent of its width."""

    x: float
    width: float

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 2)

    @property
    def end(self) -> float:
        return round(self.x + self.width, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTick:
    """A turn on the map."""

    n: int
    x: float
    numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMap:
    """A working-set map as its template draws it."""

    head: int
    high: int
    threshold: float
    area: str
    edge: str
    leaving: tuple[MapBand, ...]
    fetched: tuple[MapBand, ...]
    refused: tuple[MapBand, ...]
    checkpoints: tuple[float, ...]
    ticks: tuple[MapTick, ...]
    #: (seq, tokens) of a table for readers who cannot see the picture.
    rows: tuple[tuple[int, int], ...]
    sampled: bool


def draw(found: WorkingSetMap) -> DrawnMap:
    """Draw a map; events are spaced evenly, the first at the left edge."""
    top = max(_TOP_FACTOR * found.high, 1.0, *(tokens for _, tokens in found.points))
    edge = _draw_edge(found, top)
    last = len(found.turns)
    return DrawnMap(
        head=found.head,
        high=found.high,
        threshold=_to_y(found.high, top),
        edge=edge,
        area=f"{edge}V{HEIGHT}H0Z" if edge else "",
        leaving=_build_bands(found.leaving, found.head),
        fetched=_build_bands(found.fetched, found.head),
        refused=_build_bands(found.refused, found.head),
        checkpoints=tuple(to_percent(seq, found.head) for seq in found.checkpoints),
        ticks=tuple(
            MapTick(
                n=n,
                x=to_percent(seq, found.head),
                numbered=last <= _FEW or place == 0 or (place + 1) % _NUMBERED == 0,
            )
            for place, (n, seq) in enumerate(found.turns)
        ),
        rows=_thin_points(found.points),
        sampled=found.sampled,
    )


def to_percent(seq: int, head: int) -> float:
    """Compute the place of an event in per cent of the width; the first at 0."""
    return round(100 * (seq - 1) / (head - 1), 2) if head > 1 else 0.0


def _draw_edge(found: WorkingSetMap, top: float) -> str:
    """Draw the edge: steps from event to event, or a line if only samples are known."""
    if not found.points:
        return ""
    first, *others = found.points
    start = f"M0 {_to_y(first[1], top)}"
    parts, before = [start], _to_y(first[1], top)
    for seq, tokens in others:
        x, y = to_percent(seq, found.head) * WIDTH / 100, _to_y(tokens, top)
        parts.append(f"L{x:g} {y:g}" if found.sampled else f"H{x:g}")
        if not found.sampled and y != before:
            parts.append(f"V{y:g}")
        before = y
    return "".join([*parts, f"H{WIDTH}"])


def _to_y(tokens: int, top: float) -> float:
    return round(HEIGHT * (1 - tokens / top), 1)


def _build_bands(stretches: Stretches, head: int) -> tuple[MapBand, ...]:
    return tuple(
        MapBand(
            x=to_percent(first, head),
            width=round(to_percent(last, head) - to_percent(first, head), 2),
        )
        for first, last in stretches
    )


def _thin_points(points: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    every = tuple(points)
    step = max(1, -(-len(every) // MAX_ROWS))
    # Step from the end, so that the newest point is kept.
    return every[::-1][::step][::-1]
