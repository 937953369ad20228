"""Lives of pages: every step from creation on.

Never writes. Clocks are the thread's, so that the steps a fork inherits come first.
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
    SlotStruck,
)
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.state import LineageSegment
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.queries.threads import evicted_pages
from memoryhub.queries.threads.evicted_pages import Body, Place, split_joint

#: Maximum number of steps in a page's life; older steps are left out.
STEPS = 60
#: Maximum number of turns labelled on an axis.
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
    SlotStruck.event_type: "deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeStep:
    """An event in the life of a page."""

    kind: StepKind
    #: The thread whose journal has the event, and the event's seq there.
    thread: UUID
    seq: int
    clock: int
    turn: int
    #: The event's fields; empty for the page's creation.
    body: Mapping[str, Any]

    @property
    def score(self) -> float | None:
        """Return the keep score at which the page was evicted; None without a score."""
        return self.body.get("score")

    @property
    def is_move(self) -> bool:
        """Tell whether the step changed the page's presence in the working set."""
        if self.kind == "fetched":
            return bool(self.body["promoted"])
        return self.kind in ("mapped", "shortened", "left", "deleted")

    @property
    def presence(self) -> Presence:
        """Return the page's presence after a step that moves the page."""
        if self.kind in ("left", "deleted"):
            return "out"
        if self.kind == "fetched":
            return "fetched"
        return "shortened" if self.body["level"] else "in"

    @property
    def presence_before(self) -> Presence:
        """Return the page's presence before the step, as the event records it."""
        if self.kind == "left":
            return "in"
        if self.kind == "shortened":
            return "shortened" if self.body["level_before"] else "in"
        if self.kind == "fetched" and self.body.get("level_before") is not None:
            return "shortened" if self.body["level_before"] else "in"
        return "in" if self.body.get("tier_before") == "L0" else "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceSpan:
    """A stretch of a page's life with constant presence, from the clock it began at."""

    begin: int
    #: The clock of the step that ended the stretch; None while the stretch lasts.
    end: int | None
    presence: Presence


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLife:
    """The steps of a page, oldest first, and the stretches between the steps."""

    page_id: str
    steps: tuple[LifeStep, ...]
    spans: tuple[PresenceSpan, ...]
    #: Whether older steps were left out.
    cut: bool

    def find_last(self, *kinds: StepKind, up_to: int) -> LifeStep | None:
        """Find the newest step of these kinds, up to a clock."""
        found = (s for s in self.steps if s.kind in kinds and s.clock <= up_to)
        return max(found, key=lambda step: step.clock, default=None)

    def find_first(self, *kinds: StepKind, after: int) -> LifeStep | None:
        """Find the oldest step of these kinds after a clock."""
        found = (s for s in self.steps if s.kind in kinds and s.clock > after)
        return min(found, key=lambda step: step.clock, default=None)


def get_lives(
    parts: Sequence[LineageSegment],
    entries: Mapping[str, PageEntry | None],
    mapped: Collection[str] = (),
) -> dict[str, PageLife]:
    """Return the lives of these pages in the journals of a thread. Three queries.

    A life has the newest `STEPS` events per page and journal. A page without an entry
    was deleted. `mapped` names the pages in the working set: it gives the presence of
    pages that no event has moved since their creation.
    """
    began = _map_clocks(parts)
    steps: dict[str, list[LifeStep]] = {page_id: [] for page_id in entries}
    for thread, seq, kind, page_id, body in _iter_rows(parts, entries):
        step = _build_step(thread, seq, kind, body, began[thread])
        if step is not None:
            steps[page_id].append(step)
    return {
        page_id: _build_life(
            parts, page_id, entry, steps[page_id], mapped=page_id in mapped
        )
        for page_id, entry in entries.items()
    }


def add_recalled(
    life: PageLife, parts: Sequence[LineageSegment], turns: Iterable[tuple[int, int]]
) -> PageLife:
    """Return a life with the turns whose recall brought the page along.

    `turns` are pairs (turn, seq of its context) of the newest thread. Only the first
    turn of a row of turns becomes a step.
    """
    thread, began = parts[-1].thread, _map_clocks(parts)[parts[-1].thread]
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


def get_ticks(parts: Sequence[LineageSegment], turns: int) -> list[tuple[int, int]]:
    """Return a few turns, first and last included, each with its clock.

    One query.
    """
    steps = min(TICKS, turns) - 1
    wanted = {1 + (turns - 1) * n // steps for n in range(steps + 1)} if steps else {1}
    began, journals = _map_clocks(parts), Q()
    for part in parts:
        journals |= Q(thread_id=part.thread, seq__lte=part.up_to_seq)
    rows = Turn.objects.filter(journals, n__in=wanted).order_by("n")
    found = rows.values_list("n", "thread_id", "seq")
    return [(n, began[thread] + seq) for n, thread, seq in found]


def build_spans(
    made: int, steps: Sequence[LifeStep], *, mapped: bool
) -> list[PresenceSpan]:
    """Build the stretches between the steps of a page, oldest first. Pure.

    The first step that moved the page records the presence before it. Without any such
    step, the page has kept its presence since its creation.
    """
    moving = [step for step in steps if step.is_move]
    presence: Presence = "in" if mapped else "out"
    if moving:
        presence = moving[0].presence_before
    found, begin = list[PresenceSpan](), made
    for step in moving:
        if step.presence != presence:
            found.append(PresenceSpan(begin=begin, end=step.clock, presence=presence))
            begin, presence = step.clock, step.presence
        if step.kind == "deleted":
            return found
    return [*found, PresenceSpan(begin=begin, end=None, presence=presence)]


def _map_clocks(parts: Sequence[LineageSegment]) -> dict[UUID, int]:
    """Map each journal to the clock before its first event."""
    found, clock = dict[UUID, int](), 0
    for part in parts:
        found[part.thread] = clock
        clock += part.up_to_seq
    return found


def _iter_rows(
    parts: Sequence[LineageSegment], page_ids: Collection[str]
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
    yield from _iter_joint_rows(parts, page_ids)


def _iter_joint_rows(
    parts: Sequence[LineageSegment], page_ids: Collection[str]
) -> Iterator[tuple[UUID, int, str, str, Body]]:
    """Yield the evictions and citations of these pages that joint events record."""
    journals = [(part.thread, part.up_to_seq) for part in parts]
    places = evicted_pages.list_places(journals, page_ids, newest=STEPS)
    events = Event.objects.filter_places({place for place, _ in places})
    read: dict[Place, dict[str, tuple[str, Body]]] = {}
    for thread, seq, kind, text in events.values_list(
        "thread_id", "seq", "type", "body"
    ):
        each = split_joint(kind, orjson.loads(text))
        read[thread, seq] = {body["page_id"]: (word, body) for word, body in each}
    for (thread, seq), page_id in places:
        # An erasure may have blanked the page ids since the places were read.
        if found := read[thread, seq].get(page_id):
            kind, body = found
            yield thread, seq, kind, page_id, body


def _build_step(
    thread: UUID, seq: int, kind: str, body: Body, began: int
) -> LifeStep | None:
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


def _build_life(
    parts: Sequence[LineageSegment],
    page_id: str,
    entry: PageEntry | None,
    steps: list[LifeStep],
    *,
    mapped: bool,
) -> PageLife:
    steps.sort(key=lambda step: step.clock)
    cut = len(steps) >= STEPS
    steps = steps[-STEPS * len(parts) :]
    first = steps[0].clock if steps else 1
    if entry is not None:
        first = entry.created_seq
        steps.insert(0, _build_creation(parts, entry))
    spans = build_spans(first, steps, mapped=mapped)
    return PageLife(page_id=page_id, steps=tuple(steps), spans=tuple(spans), cut=cut)


def _build_creation(parts: Sequence[LineageSegment], entry: PageEntry) -> LifeStep:
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
