"""Turn diffs: changes of the working set from one turn to a later turn, with causes.

Pure. Diffs are made from the frames of both turns and the events between; every change
names the event that made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from memoryhub.kernel.state import page_events as events
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import FULL, build_slot_page_id
from memoryhub.kernel.state.paging import Frame

ChangeKind = Literal[
    "entered", "left", "lowered", "upgraded", "updated", "shortened", "lengthened",
    "unchanged",
]  # fmt: skip
KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
#: The events that can change a frame; no others need to be read.
FRAMING: tuple[type[EventBody], ...] = (
    SlotAppended,
    events.PageCreated,
    events.PageUpdated,
    events.PageMapped,
    events.PageFaulted,
    events.PageEvicted,
    events.PagesEvicted,
    events.PageLowered,
    events.PageDeleted,
)


class LocatedEvent(NamedTuple):
    """An event with its thread and seq."""

    thread: UUID
    seq: int
    event: EventBody


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReason:
    """The event that made a change."""

    thread: UUID
    seq: int
    type: str
    cause: str
    by: str

    @classmethod
    def from_event(cls, happened: LocatedEvent) -> ChangeReason:
        event = happened.event
        return cls(
            thread=happened.thread,
            seq=happened.seq,
            type=event.event_type,
            # The append of a slot maps it.
            cause=getattr(event, "cause", "append"),
            by=getattr(event, "by", "tool"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameChange:
    """Change of one page from one turn to the other."""

    page_id: str
    kind: ChangeKind
    type: str
    #: Level of its frame; None without a frame.
    level_before: int | None
    level_after: int | None
    version_before: int | None
    version_after: int | None
    tokens_before: int
    tokens_after: int
    #: None for an unchanged page in its old place, and for a page that only found room,
    #: or more room, in one of the two requests.
    reason: ChangeReason | None
    #: Event of the last removal, if the page left or came back at another place.
    removal: ChangeReason | None

    @property
    def delta(self) -> int:
        return self.tokens_after - self.tokens_before

    @property
    def moved(self) -> bool:
        """Return whether the page came back at another place of the context."""
        return self.removal is not None and self.kind != "left"


@dataclass(slots=True, kw_only=True)
class _Story:
    """A page between the turns: its place, and the last event of each kind of step."""

    mapped: bool
    #: Level of the last frame: a page that left and came back lower counts as lowered.
    level: int
    steps: dict[ChangeKind, ChangeReason] = field(default_factory=dict)


def list_changes(
    before: Mapping[str, Frame],
    after: Mapping[str, Frame],
    between: Iterable[LocatedEvent],
) -> tuple[FrameChange, ...]:
    """List the change of every page mapped in either turn, from all `FRAMING` events.

    Pages that left come first, then the others, each in the order of their context.
    Linear in the events.
    """
    stories = {
        page_id: _Story(mapped=True, level=frame.level)
        for page_id, frame in before.items()
    }
    for happened in between:
        _add_event(stories, happened)
    gone = [frame for frame in _sort_frames(before) if frame.page_id not in after]
    pages = [frame.page_id for frame in (*gone, *_sort_frames(after))]
    return tuple(
        _build_change(before.get(page_id), after.get(page_id), stories.get(page_id))
        for page_id in pages
    )


def mark_shortened(
    found: Iterable[FrameChange], before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[FrameChange, ...]:
    """Mark the changes of pages that are shown at another length than before.

    `before` and `after` hold the kept characters of the pages shown in part.
    """
    return tuple(
        replace(change, kind=kind)
        if (kind := _compare_length(change, before, after))
        else change
        for change in found
    )


def _compare_length(
    change: FrameChange, before: Mapping[str, int], after: Mapping[str, int]
) -> ChangeKind | None:
    kept, keeps = (cuts.get(change.page_id, inf) for cuts in (before, after))
    if change.kind != "unchanged" or kept == keeps:
        return None
    return "shortened" if keeps < kept else "lengthened"


def count_changes(found: Iterable[FrameChange]) -> dict[ChangeKind, int]:
    """Count the changes of each kind."""
    counted = Counter(change.kind for change in found)
    return {kind: counted[kind] for kind in KINDS}


def _sort_frames(frames: Mapping[str, Frame]) -> list[Frame]:
    return sorted(frames.values(), key=attrgetter("place"))


def _add_event(stories: dict[str, _Story], happened: LocatedEvent) -> None:
    for event in events.split_event(happened.event):
        _add_placed(stories, happened, event)


def _add_placed(
    stories: dict[str, _Story], happened: LocatedEvent, event: EventBody
) -> None:
    placed = _find_placed(event)
    if placed is None:
        return
    page_id, level = placed
    story = stories.setdefault(page_id, _Story(mapped=False, level=level or FULL))
    reason = ChangeReason.from_event(happened)
    if isinstance(event, events.PageUpdated):
        story.steps["updated"] = reason
        if not story.mapped:
            return
    if level is None:
        if story.mapped:
            story.steps["left"] = reason
        story.mapped = False
        return
    if not story.mapped:
        story.steps["entered"] = reason
    if level != story.level:
        story.steps["lowered" if level > story.level else "upgraded"] = reason
    story.mapped, story.level = True, level


def _find_placed(event: EventBody) -> tuple[str, int | None] | None:
    """Return the page whose frame the event changes, and its level; None: no frame."""
    match event:
        case SlotAppended(page=events.SlotPage(mapped=True)):
            return build_slot_page_id(event.index), FULL
        case events.PageCreated(mapped=True):
            return event.page_id, FULL
        case events.PageUpdated(tokens=int()):
            return event.page_id, FULL
        case (
            events.PageMapped()
            | events.PageFaulted(promoted=True)
            | events.PageLowered()
        ):
            return event.page_id, event.level
        case events.PageEvicted(tier_before="L0") | events.PageDeleted():
            return event.page_id, None
    return None


def _build_change(
    before: Frame | None, after: Frame | None, story: _Story | None
) -> FrameChange:
    frame = after or before
    assert frame is not None
    steps = story.steps if story else {}
    kind = _classify_change(before, after)
    moved = before and after and before.mapped_seq != after.mapped_seq
    return FrameChange(
        page_id=frame.page_id,
        kind=kind,
        type=frame.entry.type,
        level_before=before.level if before else None,
        level_after=after.level if after else None,
        version_before=before.entry.version if before else None,
        version_after=after.entry.version if after else None,
        tokens_before=before.tokens if before else 0,
        tokens_after=after.tokens if after else 0,
        reason=steps.get("entered" if kind == "unchanged" else kind),
        removal=steps.get("left") if moved or kind == "left" else None,
    )


def _classify_change(before: Frame | None, after: Frame | None) -> ChangeKind:
    if before is None:
        return "entered"
    if after is None:
        return "left"
    if before.entry.version != after.entry.version:
        return "updated"
    if before.level != after.level:
        return "lowered" if after.level > before.level else "upgraded"
    return "unchanged"
