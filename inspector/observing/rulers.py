"""How a thread is observed, as bars and a ruler of its messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from inspector.drawing import bars
from inspector.drawing.bars import Segment
from memoryhub.kernel.state.observing import Observation, Observing
from memoryhub.queries.observing.observers import Observer

#: What stands for messages in requests, will, or does not.
Kind = Literal["reflection", "log", "waiting", "ahead", "gap", "unobserved", "next"]
#: Words for them.
LABELS: dict[Kind, str] = {
    "reflection": "reflection",
    "log": "in the log",
    "waiting": "waits",
    "ahead": "reflection that waits",
    "gap": "gap: erased",
    "unobserved": "not observed",
    # What is in flight is saved nowhere; this is what it is of, or will be.
    "next": "due: asked of the model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across a bar, with its words."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedBar:
    """Parts side by side, and lines across them; the second's words stand beneath."""

    label: str
    parts: tuple[Segment, ...]
    above: Mark
    below: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Messages [begin, end) of the ruler."""

    kind: Kind
    begin: int
    end: int
    x: float
    width: float
    #: What stands for them; empty for a gap and what is not observed.
    page_id: str = ""
    tokens: int = 0
    raw: int = 0

    @property
    def label(self) -> str:
        return LABELS[self.kind]

    @property
    def last(self) -> int:
        return self.end - 1


def window_bar(observer: Observer) -> MarkedBar:
    """Draw what a request would hold that shows all there is."""
    held = observer.pins + observer.log
    whole = max(observer.window, observer.need, 1)
    keep_x = bars.share(held + observer.keep, whole)
    raw = observer.uncovered - observer.waiting
    sizes = (
        ("pinned", "pinned", observer.pins, ""),
        ("log", "log of observations", observer.log, ""),
        ("waiting", "messages whose observation waits", observer.waiting, ""),
        ("unobserved", "messages not observed", raw, ""),
        ("free", "free", max(0, observer.window - observer.need), ""),
    )
    at = observer.activate_at
    return MarkedBar(
        label=f"A request that shows all: {observer.need:,} of {observer.window:,} "
        "tokens",
        parts=bars.stacked(sizes, whole),
        above=Mark(x=bars.share(at, whole), text=f"what waits comes in at {at:,}"),
        below=Mark(x=keep_x, text=f"{observer.keep:,} tokens of messages stay"),
    )


def log_bar(observer: Observer, seen: Observing) -> MarkedBar:
    """Draw how long the log is, beside the length at which it is condensed."""
    limit = observer.reflect_at
    whole = max(observer.log, limit * 5 // 4, 1)
    reflected = sum(each.tokens for each in seen.log if each.covers)
    sizes = (
        ("reflection", "reflection", reflected, ""),
        ("log", "observations", observer.log - reflected, ""),
    )
    return MarkedBar(
        label=f"The log: {observer.log:,} tokens, condensed at {limit:,}",
        parts=bars.stacked(sizes, whole),
        above=Mark(x=bars.share(limit, whole), text=f"condensed at {limit:,}"),
        below=Mark(
            x=bars.share(limit // 2, whole), text=f"begun ahead at {limit // 2:,}"
        ),
    )


def stretches(
    seen: Observing, slots: int, due: tuple[int, int] | None = None
) -> list[Stretch]:
    """Return all messages as stretches, in their order; a reflection that waits last.

    After that those that are `due`.

    What the log and chunks stand for, gaps between, and what comes after.
    """
    ends = [(seen.watermark, slots)] if seen.watermark < slots else []
    found = [
        *(
            _drawn("reflection" if each.covers else "log", each, slots)
            for each in seen.log
        ),
        *(_drawn("waiting", each, slots) for each in seen.chunks),
        *_bare("gap", seen.gaps(), slots),
        *_bare("unobserved", ends, slots),
    ]
    found.sort(key=lambda each: each.begin)
    ahead = [_drawn("ahead", seen.ahead, slots)] if seen.ahead else []
    return [*found, *ahead, *_bare("next", [due] if due else [], slots)]


def _drawn(kind: Kind, each: Observation, slots: int) -> Stretch:
    x = bars.share(each.begin, slots)
    return Stretch(
        kind=kind,
        begin=each.begin,
        end=each.end,
        x=x,
        width=round(bars.share(each.end, slots) - x, 2),
        page_id=each.page_id,
        tokens=each.tokens,
        raw=each.raw,
    )


def _bare(
    kind: Kind, ranges: Iterable[tuple[int, int]], slots: int
) -> Iterator[Stretch]:
    for begin, end in ranges:
        x, to = bars.share(begin, slots), bars.share(end, slots)
        width = round(to - x, 2)
        yield Stretch(kind=kind, begin=begin, end=end, x=x, width=width)
