"""Lives: what happened to pages from their making on.

Never writes. Told on the thread's clock, so that what a fork inherits comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

import orjson
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from memoryhub.kernel.state.page_events import (
    FaultRefused,
    PageDeleted,
    PageEvicted,
    PageFaulted,
    PageLowered,
    PageMapped,
    PageReferenced,
    PageUpdated,
)
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.state import Segment
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.evicted_pages import Body, Place, split_evictions

#: Steps of one page that its life has; older ones are left out.
STEPS = 60
#: Turns that an axis names.
TICKS = 6
StepKind = Literal[
    "made", "updated", "mapped", "shortened", "left", "cooled", "fetched", "refused",
    "cited", "recalled", "deleted",
]  # fmt: skip
Presence = Literal["in", "shortened", "fetched", "out"]
_KINDS: dict[str, StepKind] = {
    PageUpdated.event_type: "updated",
    PageMapped.event_type: "mapped",
    PageLowered.event_type: "shortened",
    PageEvicted.event_type: "left",
    PageFaulted.event_type: "fetched",
    FaultRefused.event_type: "refused",
    PageReferenced.event_type: "cited",
    PageDeleted.event_type: "deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeStep:
    """Something that happened to a page."""

    kind: StepKind
    #: Whose journal has the event, and its seq there.
    thread: UUID
    seq: int
    clock: int
    turn: int
    #: The event's fields; of the making nothing.
    body: Mapping[str, Any]

    @property
    def score(self) -> float | None:
        """Give the keep score that the page lost by; None where none was reckoned."""
        return self.body.get("score")

    @property
    def moves(self) -> bool:
        """Tell whether it changed how the page stands in the working set."""
        if self.kind == "fetched":
            return bool(self.body["promoted"])
        return self.kind in ("mapped", "shortened", "left", "deleted")

    @property
    def presence(self) -> Presence:
        """Give how the page stands from here on, after a step that moves it."""
        if self.kind in ("left", "deleted"):
            return "out"
        if self.kind == "fetched":
            return "fetched"
        return "shortened" if self.body["level"] else "in"

    @property
    def presence_before(self) -> Presence:
        """Give how the page stood until then, as the event has it."""
        if self.kind == "left":
            return "in"
        if self.kind == "shortened":
            return "shortened" if self.body["level_before"] else "in"
        if self.kind == "fetched" and self.body.get("level_before") is not None:
            return "shortened" if self.body["level_before"] else "in"
        return "in" if self.body.get("tier_before") == "L0" else "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of a page's life: the clock it began at, and how the page stood."""

    begin: int
    #: The clock of what ended it; None while it goes on.
    end: int | None
    presence: Presence


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The steps of a page, oldest first, and the stretches between them."""

    page_id: str
    steps: tuple[LifeStep, ...]
    spans: tuple[Span, ...]
    #: There are older steps than those.
    cut: bool

    def last(self, *kinds: StepKind, up_to: int) -> LifeStep | None:
        """Find the newest step of these kinds, up to a clock."""
        found = (s for s in self.steps if s.kind in kinds and s.clock <= up_to)
        return max(found, key=lambda step: step.clock, default=None)

    def first(self, *kinds: StepKind, after: int) -> LifeStep | None:
        """Find the oldest step of these kinds behind a clock."""
        found = (s for s in self.steps if s.kind in kinds and s.clock > after)
        return min(found, key=lambda step: step.clock, default=None)


def get_lives(
    parts: Sequence[Segment],
    entries: Mapping[str, Entry | None],
    mapped: Collection[str] = (),
) -> dict[str, Life]:
    """Return the lives of these pages in the journals of a thread. Three queries.

    Of each page and journal the newest `STEPS` events. A page without an entry was
    deleted. `mapped` are those that stand in the working set, for pages that nothing
    has moved since they were made.
    """
    began = _clocks(parts)
    steps: dict[str, list[LifeStep]] = {page_id: [] for page_id in entries}
    for thread, seq, kind, page_id, body in _rows(parts, entries):
        step = _step(thread, seq, kind, body, began[thread])
        if step is not None:
            steps[page_id].append(step)
    return {
        page_id: _life(parts, page_id, entry, steps[page_id], mapped=page_id in mapped)
        for page_id, entry in entries.items()
    }


def with_recalled(
    life: Life, parts: Sequence[Segment], turns: Iterable[tuple[int, int]]
) -> Life:
    """Return a life with the turns that brought the page along unasked.

    They are given as (turn, seq of its context), of the newest thread; of an exchange
    the first tells.
    """
    thread, began = parts[-1].thread, _clocks(parts)[parts[-1].thread]
    brought = dict(turns)
    found = [
        LifeStep(
            kind="recalled", thread=thread, seq=seq, clock=began + seq, turn=n, body={}
        )
        for n, seq in brought.items()
        if n - 1 not in brought
    ]
    steps = sorted([*life.steps, *found], key=lambda step: step.clock)
    return replace(life, steps=tuple(steps))


def get_ticks(parts: Sequence[Segment], turns: int) -> list[tuple[int, int]]:
    """Return a few turns, the first and the last among them, each with its clock.

    One query.
    """
    steps = min(TICKS, turns) - 1
    wanted = {1 + (turns - 1) * n // steps for n in range(steps + 1)} if steps else {1}
    began, journals = _clocks(parts), Q()
    for part in parts:
        journals |= Q(thread_id=part.thread, seq__lte=part.up_to_seq)
    rows = Turn.objects.filter(journals, n__in=wanted).order_by("n")
    found = rows.values_list("n", "thread_id", "seq")
    return [(n, began[thread] + seq) for n, thread, seq in found]


def spans_of(made: int, steps: Sequence[LifeStep], *, mapped: bool) -> list[Span]:
    """Return the stretches between the steps of a page, oldest first. Pure.

    How it stood before the first that moved it, that one says; without any it stands
    as it did when it was made.
    """
    moving = [step for step in steps if step.moves]
    presence: Presence = "in" if mapped else "out"
    if moving:
        presence = moving[0].presence_before
    found, begin = list[Span](), made
    for step in moving:
        if step.presence != presence:
            found.append(Span(begin=begin, end=step.clock, presence=presence))
            begin, presence = step.clock, step.presence
        if step.kind == "deleted":
            return found
    return [*found, Span(begin=begin, end=None, presence=presence)]


def _clocks(parts: Sequence[Segment]) -> dict[UUID, int]:
    """By journal, the clock that its seqs are counted on from."""
    found, clock = dict[UUID, int](), 0
    for part in parts:
        found[part.thread] = clock
        clock += part.up_to_seq
    return found


def _rows(
    parts: Sequence[Segment], page_ids: Collection[str]
) -> Iterator[tuple[UUID, int, str, str, Body]]:
    journals = Q()
    for part in parts:
        journals |= Q(thread_id=part.thread, seq__lte=part.up_to_seq)
    rows = Event.objects.filter(journals, page__in=sorted(page_ids), type__in=_KINDS)
    newest = Window(
        RowNumber(), partition_by=["thread_id", "page"], order_by=F("seq").desc()
    )
    found = rows.annotate(place=newest).filter(place__lte=STEPS)
    columns = ("thread_id", "seq", "type")
    for *row, page_id, text in found.values_list(*columns, "page", "body"):
        yield *row, page_id, orjson.loads(text)
    yield from _evicted_rows(parts, page_ids)


def _evicted_rows(
    parts: Sequence[Segment], page_ids: Collection[str]
) -> Iterator[tuple[UUID, int, str, str, Body]]:
    """Yield the evictions of these pages that joined events tell of."""
    journals = [(part.thread, part.up_to_seq) for part in parts]
    places = evicted_pages.list_places(journals, page_ids, newest=STEPS)
    events = Event.objects.at_places({place for place, _ in places})
    read: dict[Place, dict[str, Body]] = {}
    for thread, seq, kind, text in events.values_list(
        "thread_id", "seq", "type", "body"
    ):
        each = split_evictions(kind, orjson.loads(text))
        read[thread, seq] = {body["page_id"]: body for _, body in each}
    for (thread, seq), page_id in places:
        # An erasure may have blanked the names since the places were read.
        if body := read[thread, seq].get(page_id):
            yield thread, seq, PageEvicted.event_type, page_id, body


def _step(thread: UUID, seq: int, kind: str, body: Body, began: int) -> LifeStep | None:
    word = _KINDS[kind]
    if word == "left" and body["tier_before"] != "L0":
        word = "cooled"
    return LifeStep(
        kind=word,
        thread=thread,
        seq=seq,
        clock=began + seq,
        turn=body["turn"],
        body=body,
    )


def _life(
    parts: Sequence[Segment],
    page_id: str,
    entry: Entry | None,
    steps: list[LifeStep],
    *,
    mapped: bool,
) -> Life:
    steps.sort(key=lambda step: step.clock)
    cut = len(steps) >= STEPS
    steps = steps[-STEPS * len(parts) :]
    first = steps[0].clock if steps else 1
    if entry is not None:
        first = entry.created_seq
        steps.insert(0, _making(parts, entry))
    spans = spans_of(first, steps, mapped=mapped)
    return Life(page_id=page_id, steps=tuple(steps), spans=tuple(spans), cut=cut)


def _making(parts: Sequence[Segment], entry: Entry) -> LifeStep:
    clock, place = entry.created_seq, entry.created_seq
    for part in parts:
        if place <= part.up_to_seq or part is parts[-1]:
            return LifeStep(
                kind="made",
                thread=part.thread,
                seq=place,
                clock=clock,
                turn=entry.turn,
                body={},
            )
        place -= part.up_to_seq
    raise AssertionError(clock)
