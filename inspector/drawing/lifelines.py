"""Life lines: how a page stood over the thread's events, as a line. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryhub.queries.paging.lives import Life, LifeStep, Span

#: Top and height of a stretch, by how the page stood.
_SHAPES = {"in": (2, 10), "shortened": (4, 6), "fetched": (2, 10)}
_WORDS = {
    "made": "made",
    "updated": "changed",
    "mapped": "mapped",
    "shortened": "shortened",
    "left": "left",
    "fetched": "fetched back",
    "refused": "refused",
    "cited": "cited",
    "recalled": "brought along",
    "deleted": "deleted",
}
#: Steps that are drawn as a mark of their own; the others are where stretches meet.
_MARKED = ("updated", "refused", "cited", "recalled")
#: Steps that the label of a line names.
_NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Hold a stretch in which the page was in; all in percent but top and height."""

    kind: str
    x: str
    width: str
    y: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStep:
    """Hold what happened in a turn, in words."""

    words: str
    #: None of a count of steps that are not named one by one.
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeLine:
    """Hold a page's life as it is drawn, from the thread's first event to its last."""

    bars: tuple[Bar, ...]
    #: Beginnings and ends of the stretches in which it was out.
    gaps: tuple[tuple[str, str], ...]
    #: What else happened: its kind and its place.
    marks: tuple[tuple[str, str], ...]
    #: Where the page that shows it stands; empty for now.
    here: str
    #: What happened, in words.
    steps: tuple[NamedStep, ...]
    label: str


def draw(life: Life, *, head: int, here: int | None) -> LifeLine:
    """Draw a life on an axis that ends at the clock `head`."""

    def x(clock: int | None) -> float:
        return 100.0 * min(head if clock is None else clock, head) / max(head, 1)

    def percent(value: float) -> str:
        return f"{value:.2f}"

    steps = tuple(named_steps(life))
    bars, gaps = list[Bar](), list[tuple[str, str]]()
    for span in life.spans:
        begin, end = x(span.begin), x(span.end)
        if span.presence == "out":
            gaps.append((percent(begin), percent(end)))
        else:
            bars.append(_bar(span, percent(begin), percent(max(end - begin, 0.3))))
    return LifeLine(
        bars=tuple(bars),
        gaps=tuple(gaps),
        marks=tuple(
            (step.kind, percent(x(step.clock)))
            for step in life.steps
            if step.kind in _MARKED
        ),
        here="" if here is None else percent(x(here)),
        steps=steps,
        label=f"Life of {life.page_id}: {_words(steps)}",
    )


def axis(ticks: Iterable[tuple[int, int]], *, head: int) -> list[tuple[int, str]]:
    """Place turns on the axis of a life that ends at the clock `head`."""
    return [(n, f"{100 * clock / max(head, 1):.2f}") for n, clock in ticks]


def named_steps(life: Life) -> list[NamedStep]:
    """Word what happened to the page; the newest where it was much."""
    steps = [step for step in life.steps if step.kind in _WORDS]
    named = [_named(step) for step in (*steps[:1], *steps[1:][-_NAMED:])]
    hidden = len(steps) - len(named)
    if hidden > 0:
        named.insert(1, NamedStep(words=f"{hidden:,} more", turn=None))
    return named


def _named(step: LifeStep) -> NamedStep:
    return NamedStep(words=_WORDS[step.kind], turn=step.turn)


def _words(steps: Iterable[NamedStep]) -> str:
    worded = (
        step.words if step.turn is None else f"{step.words} in turn {step.turn:,}"
        for step in steps
    )
    return ", ".join(worded) or "nothing is known of it"


def _bar(span: Span, x: str, width: str) -> Bar:
    y, height = _SHAPES[span.presence]
    return Bar(kind=span.presence, x=x, width=width, y=y, height=height)
