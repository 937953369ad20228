"""Maps: a thread's working set from afar, as the numbers that a picture is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryhub.queries.paging.working_set_maps import Stretches, WorkingSetMap

#: Units of the picture: its paths are as wide, and as high as its pixels.
WIDTH, HEIGHT = 1_000, 46
#: Room above the line beyond which pages leave.
_ABOVE = 1.15
#: Every fifth mark has its number, or each where there are few.
_NUMBERED, _FEW = 5, 10
#: Rows of the same as a table.
ROWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A stretch of the map, in per cent of its width."""

    x: float
    width: float

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 2)

    @property
    def end(self) -> float:
        return round(self.x + self.width, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A turn on the map."""

    n: int
    x: float
    numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMap:
    """What the template of a map puts into its picture."""

    head: int
    high: int
    threshold: float
    area: str
    edge: str
    leaving: tuple[Band, ...]
    fetched: tuple[Band, ...]
    refused: tuple[Band, ...]
    checkpoints: tuple[float, ...]
    ticks: tuple[Tick, ...]
    #: (seq, tokens) for those who do not see it.
    rows: tuple[tuple[int, int], ...]
    sampled: bool


def draw(found: WorkingSetMap) -> DrawnMap:
    """Draw a map; each event has its place, the first at the left edge."""
    top = max(_ABOVE * found.high, 1.0, *(tokens for _, tokens in found.points))
    edge = _edge(found, top)
    last = len(found.turns)
    return DrawnMap(
        head=found.head,
        high=found.high,
        threshold=_y(found.high, top),
        edge=edge,
        area=f"{edge}V{HEIGHT}H0Z" if edge else "",
        leaving=_bands(found.leaving, found.head),
        fetched=_bands(found.fetched, found.head),
        refused=_bands(found.refused, found.head),
        checkpoints=tuple(percent(seq, found.head) for seq in found.checkpoints),
        ticks=tuple(
            Tick(
                n=n,
                x=percent(seq, found.head),
                numbered=last <= _FEW or place == 0 or (place + 1) % _NUMBERED == 0,
            )
            for place, (n, seq) in enumerate(found.turns)
        ),
        rows=_thinned(found.points),
        sampled=found.sampled,
    )


def percent(seq: int, head: int) -> float:
    """Return where an event stands, of the whole width; the first at 0."""
    return round(100 * (seq - 1) / (head - 1), 2) if head > 1 else 0.0


def _edge(found: WorkingSetMap, top: float) -> str:
    """Draw steps from event to event, or a line where only samples are known."""
    if not found.points:
        return ""
    first, *others = found.points
    start = f"M0 {_y(first[1], top)}"
    parts, before = [start], _y(first[1], top)
    for seq, tokens in others:
        x, y = percent(seq, found.head) * WIDTH / 100, _y(tokens, top)
        parts.append(f"L{x:g} {y:g}" if found.sampled else f"H{x:g}")
        if not found.sampled and y != before:
            parts.append(f"V{y:g}")
        before = y
    return "".join([*parts, f"H{WIDTH}"])


def _y(tokens: int, top: float) -> float:
    return round(HEIGHT * (1 - tokens / top), 1)


def _bands(stretches: Stretches, head: int) -> tuple[Band, ...]:
    return tuple(
        Band(
            x=percent(first, head),
            width=round(percent(last, head) - percent(first, head), 2),
        )
        for first, last in stretches
    )


def _thinned(points: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    every = tuple(points)
    step = max(1, -(-len(every) // ROWS))
    # The newest is always there.
    return every[::-1][::step][::-1]
