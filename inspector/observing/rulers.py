"""Bars and a ruler of messages that draw a thread's observing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from inspector.drawing import bars
from inspector.drawing.bars import BarSegment
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.state.observing import Observation, Observing
from memoryhub.queries.observing.observers import Observer

#: Kinds of a stretch: what stands for its messages in requests, now or later.
Kind = Literal["reflection", "log", "waiting", "ahead", "gap", "unobserved", "next"]
#: Words for the kinds.
LABELS: dict[Kind, str] = {
    "reflection": "reflection",
    "log": "summarised, in the log",
    "waiting": "summary ready, not used yet",
    "ahead": "reflection ready, not used yet",
    "gap": "gap: summary erased",
    "unobserved": "not summarised",
    # A run in flight is stored nowhere; this is the range that it covers, or will.
    "next": "due: sent to the model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BarMark:
    """Line across a bar, with its text."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedBar:
    """Bar of parts with two lines across, one labelled above and one below."""

    label: str
    parts: tuple[BarSegment, ...]
    above: BarMark
    below: BarMark


@dataclass(frozen=True, slots=True, kw_only=True)
class RulerStretch:
    """Stretch of the ruler: messages [begin, end)."""

    kind: Kind
    begin: int
    end: int
    x: float
    width: float
    #: Page that stands for the messages; empty for a gap and for unobserved messages.
    page_id: str = ""
    tokens: int = 0
    raw: int = 0

    @property
    def label(self) -> str:
        return LABELS[self.kind]

    @property
    def last(self) -> int:
        return self.end - 1


def draw_window_bar(observer: Observer, seen: Observing) -> MarkedBar:
    """Draw the need: a request with the log in place of the messages it replaces.

    Messages count with their own tokens, as on the rest of the page; what a request
    adds to each message is a part of its own.
    """
    held = observer.pins + observer.log
    whole = max(observer.window, observer.need, 1)
    keep_x = bars.compute_share(held + observer.keep, whole)
    waiting = sum(each.raw for each in seen.chunks)
    framing = observer.uncovered - waiting - observer.unobserved
    sizes = (
        ("pinned", "pinned", observer.pins, ""),
        ("log", "observation log", observer.log, ""),
        ("waiting", "messages with a summary ready", waiting, ""),
        ("unobserved", "messages not summarised yet", observer.unobserved, ""),
        ("framing", f"framing, {formulas.LINE} a message", framing, ""),
        ("free", "free", max(0, observer.window - observer.need), ""),
    )
    at = observer.activate_at
    shown = (
        "the log in place of the messages that it replaces"
        if observer.log
        else "all messages"
    )
    return MarkedBar(
        label=f"A request with {shown}: {observer.need:,} of {observer.window:,} "
        "tokens",
        parts=bars.stack_segments(sizes, whole),
        above=BarMark(
            x=bars.compute_share(at, whole),
            text=f"oldest messages summarised from {at:,}",
        ),
        below=BarMark(x=keep_x, text=f"newest {observer.keep:,} tokens stay in full"),
    )


def draw_log_bar(observer: Observer, seen: Observing) -> MarkedBar:
    """Draw the log's length in tokens against the length at which it is condensed."""
    limit = observer.reflect_at
    whole = max(observer.log, limit * 5 // 4, 1)
    reflected = sum(each.tokens for each in seen.log if each.covers)
    sizes = (
        ("reflection", "reflection", reflected, ""),
        ("log", "observations", observer.log - reflected, ""),
    )
    return MarkedBar(
        label=f"Observation log: {observer.log:,} of {limit:,} tokens",
        parts=bars.stack_segments(sizes, whole),
        above=BarMark(
            x=bars.compute_share(limit, whole), text=f"log condensed at {limit:,}"
        ),
        below=BarMark(
            x=bars.compute_share(limit // 2, whole),
            text=f"reflection prepared from {limit // 2:,}",
        ),
    )


def list_stretches(
    seen: Observing, slots: int, due: tuple[int, int] | None = None
) -> list[RulerStretch]:
    """List the stretches of messages: log, chunks, gaps and the unobserved, in order.

    A waiting reflection follows these stretches, then the messages that are `due`.
    """
    ends = [(seen.watermark, slots)] if seen.watermark < slots else []
    found = [
        *(
            _draw_stretch("reflection" if each.covers else "log", each, slots)
            for each in seen.log
        ),
        *(_draw_stretch("waiting", each, slots) for each in seen.chunks),
        *_iter_bare_stretches("gap", seen.list_gaps(), slots),
        *_iter_bare_stretches("unobserved", ends, slots),
    ]
    found.sort(key=lambda each: each.begin)
    ahead = [_draw_stretch("ahead", seen.ahead, slots)] if seen.ahead else []
    return [*found, *ahead, *_iter_bare_stretches("next", [due] if due else [], slots)]


def _draw_stretch(kind: Kind, each: Observation, slots: int) -> RulerStretch:
    x = bars.compute_share(each.begin, slots)
    return RulerStretch(
        kind=kind,
        begin=each.begin,
        end=each.end,
        x=x,
        width=round(bars.compute_share(each.end, slots) - x, 2),
        page_id=each.page_id,
        tokens=each.tokens,
        raw=each.raw,
    )


def _iter_bare_stretches(
    kind: Kind, ranges: Iterable[tuple[int, int]], slots: int
) -> Iterator[RulerStretch]:
    for begin, end in ranges:
        x, to = bars.compute_share(begin, slots), bars.compute_share(end, slots)
        width = round(to - x, 2)
        yield RulerStretch(kind=kind, begin=begin, end=end, x=x, width=width)
