"""Life lines: a page's presence over the thread's events, as a line. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryhub.queries.paging.lives import LifeStep, PageLife, PresenceSpan

#: Top and height of a bar, by presence of the page.
_SHAPES = {"in": (2, 10), "shortened": (4, 6), "fetched": (2, 10)}
#: Words of each kind of step; other steps are not named.
_WORDS = {
    "made": "made",
    "updated": "changed",
    "mapped": "mapped",
    "shortened": "shortened",
    "left": "left",
    "fetched": "fetched back",
    "refused": "refused",
    "cited": "cited",
    "recalled": "recalled",
    "deleted": "deleted",
}
#: Steps drawn as a mark of their own; the other steps lie where two spans meet.
_MARKED_STEPS = ("updated", "refused", "cited", "recalled")
#: Latest steps that a life line's label names, after the first.
_MAX_NAMED_STEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeBar:
    """A span in which the page was in the working set; percent, but top and height."""

    kind: str
    x: str
    width: str
    y: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStep:
    """A step of a page's life in words, with its turn."""

    words: str
    #: None for a count of steps that are not named one by one.
    turn: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeLine:
    """A page's life as it is drawn, from the thread's first event to its last."""

    bars: tuple[LifeBar, ...]
    #: Begin and end of each span in which the working set lacked the page.
    gaps: tuple[tuple[str, str], ...]
    #: Steps drawn as marks: kind and place in percent.
    marks: tuple[tuple[str, str], ...]
    #: Place of the moment that the screen shows; empty for now.
    here: str
    #: Steps in words.
    steps: tuple[NamedStep, ...]
    label: str


def draw(life: PageLife, *, head: int, here: int | None) -> LifeLine:
    """Draw a life on an axis that ends at the clock `head`."""

    def to_percent(clock: int | None) -> float:
        return 100.0 * min(head if clock is None else clock, head) / max(head, 1)

    def format_percent(value: float) -> str:
        return f"{value:.2f}"

    steps = tuple(list_named_steps(life))
    bars, gaps = list[LifeBar](), list[tuple[str, str]]()
    for span in life.spans:
        begin, end = to_percent(span.begin), to_percent(span.end)
        if span.presence == "out":
            gaps.append((format_percent(begin), format_percent(end)))
        else:
            bars.append(
                _build_bar(
                    span, format_percent(begin), format_percent(max(end - begin, 0.3))
                )
            )
    return LifeLine(
        bars=tuple(bars),
        gaps=tuple(gaps),
        marks=tuple(
            (step.kind, format_percent(to_percent(step.clock)))
            for step in life.steps
            if step.kind in _MARKED_STEPS
        ),
        here="" if here is None else format_percent(to_percent(here)),
        steps=steps,
        label=f"Life of {life.page_id}: {_join_steps(steps)}",
    )


def place_ticks(
    ticks: Iterable[tuple[int, int]], *, head: int
) -> list[tuple[int, str]]:
    """Place turns, in percent, on the axis of a life that ends at the clock `head`."""
    return [(n, f"{100 * clock / max(head, 1):.2f}") for n, clock in ticks]


def list_named_steps(life: PageLife) -> list[NamedStep]:
    """List the steps in words; of many steps the first, a count and the newest."""
    steps = [step for step in life.steps if step.kind in _WORDS]
    named = [_name_step(step) for step in (*steps[:1], *steps[1:][-_MAX_NAMED_STEPS:])]
    hidden = len(steps) - len(named)
    if hidden > 0:
        named.insert(1, NamedStep(words=f"{hidden:,} more", turn=None))
    return named


def _name_step(step: LifeStep) -> NamedStep:
    return NamedStep(words=_WORDS[step.kind], turn=step.turn)


def _join_steps(steps: Iterable[NamedStep]) -> str:
    worded = (
        step.words if step.turn is None else f"{step.words} in turn {step.turn:,}"
        for step in steps
    )
    return ", ".join(worded) or "no recorded steps"


def _build_bar(span: PresenceSpan, x: str, width: str) -> LifeBar:
    y, height = _SHAPES[span.presence]
    return LifeBar(kind=span.presence, x=x, width=width, y=y, height=height)
