"""Conversation at an event: the messages around it, and which the model sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from inspector.drawing import chat
from inspector.drawing.chat import Bubble
from inspector.drawing.scenes import Context, ThreadScene
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.paging import Frame, list_values
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import eviction_runs
from memoryhub.queries.paging.eviction_runs import EvictionStep
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import ThreadEventLine
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.turns import turns

#: Messages shown before and after the event's message, and newest messages shown: few,
#: so that the moment is seen at once.
BEFORE, AFTER, NEWEST = 1, 1, 5
#: Messages on each side while the thumb is dragged; no others are shown then.
PASSING = 2
#: Characters shown of one message, and of all messages.
MESSAGE_CHARS, PANE_CHARS = 8_192, 49_152
#: Most messages between two windows that are shown rather than folded.
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStanding:
    """State of a message in the model's context, and the event that led to it."""

    #: Look of the mark: `in`, `short`, `fault` or `out`.
    kind: str
    text: str
    #: Seq of the event; None if no event of this thread led to it.
    seq: int | None = None
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneMessage:
    """Message of the conversation as the pane shows it."""

    bubble: Bubble
    #: None while the thumb is dragged, when no state is folded.
    standing: MessageStanding | None
    #: Turn, if the message before is of another turn.
    turn: int | None
    #: Tokens of that turn's request; None without a recorded request.
    packed: int | None
    here: bool

    @property
    def page_id(self) -> str:
        return build_slot_page_id(self.bubble.slot.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedMessages:
    """Run of messages that the pane folds, with the number that the model sees."""

    first: int
    last: int
    inside: int
    shortened: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def draw_conversation(
    scene: ThreadScene, line: ThreadEventLine | None, state: ThreadState | None
) -> Context:
    """Draw the messages around an event. Eight queries, more in a fork.

    Without a state the context does not say what the model sees.
    """
    thread, seq = scene.thread, scene.seq
    # Before its first event a fork's state does not count the inherited messages.
    if state is None or not state.seq:
        total = slots.count_slots(thread, at_seq=seq)
    else:
        total = state.slot_count
    here = min(locate_slot(line, total - 1), total - 1)
    windows = (
        [pick_passing(here, total)] if scene.passing else split_windows(here, total)
    )
    wanted = [index for window in windows for index in window]
    found = slots.get_slots(thread, wanted)
    stand = _list_standings(scene, found, state) if state else {}
    packed = _get_packed_tokens(scene, found) if state else {}
    parts = _build_parts(found, stand, windows, state, here=here, packed=packed)
    return {"parts": parts, "total": total}


def locate_slot(line: ThreadEventLine | None, newest: int) -> int:
    """Return the index of the message that an event concerns; else the newest."""
    body: Any = line.body if line else {}
    if line is not None and line.type == "slot.appended":
        return int(body["index"])
    for page_id in body.get("page_ids") or [body.get("page_id")]:
        name, _, number = str(page_id).partition("-")
        if name == "slot" and number.isdigit():
            return int(number)
    return newest


def split_windows(here: int, total: int) -> list[range]:
    """Split into the messages around `here` and the newest; one range if close."""
    if total <= 0:
        return []
    around = range(max(0, here - BEFORE), min(total, here + AFTER + 1))
    newest = range(max(0, total - NEWEST), total)
    joined = newest.start <= around.stop + _FEW
    first = min(around.start, newest.start) if joined else around.start
    first = 0 if first <= _FEW else first
    return [range(first, total)] if joined else [range(first, around.stop), newest]


def pick_passing(here: int, total: int) -> range:
    """Pick the few messages around one that are shown while the thumb is dragged."""
    return range(max(0, here - PASSING), min(total, here + PASSING + 1))


def _build_parts(
    found: Sequence[SlotLine],
    stand: dict[int, MessageStanding],
    windows: Sequence[range],
    state: ThreadState | None,
    *,
    here: int,
    packed: dict[int, int],
) -> list[PaneMessage | FoldedMessages]:
    """Build the shown messages in order, with the folded runs between them."""
    room = chat.PageRoom(left=PANE_CHARS, per_payload=MESSAGE_CHARS)
    parts, end = list[PaneMessage | FoldedMessages](), 0
    by_index = {slot.index: slot for slot in found}
    for window in windows:
        if window.start > end and state is not None:
            parts.append(_fold_messages(end, window.start - 1, state))
        end, turn = window.stop, -1
        for slot in (by_index[n] for n in window if n in by_index):
            marked = slot.turn if slot.turn != turn and slot.turn else None
            parts.append(
                PaneMessage(
                    bubble=chat.build_bubble(slot, room),
                    standing=stand.get(slot.index),
                    turn=marked,
                    packed=packed.get(marked) if marked else None,
                    here=slot.index == here,
                )
            )
            turn = slot.turn
    return parts


def _get_packed_tokens(scene: ThreadScene, found: Iterable[SlotLine]) -> dict[int, int]:
    numbers = {slot.turn for slot in found if slot.turn}
    if not numbers:
        return {}
    return turns.get_packed_tokens(scene.thread, numbers, up_to=scene.seq)


def _fold_messages(first: int, last: int, state: ThreadState) -> FoldedMessages:
    frames = [
        frame
        for frame in list_values(state.paging.frames)
        if frame.entry.slot is not None and first <= frame.entry.slot <= last
    ]
    return FoldedMessages(
        first=first,
        last=last,
        inside=len(frames),
        shortened=sum(_is_short(frame) for frame in frames),
    )


def _is_short(frame: Frame) -> bool:
    return bool(frame.level or frame.parts)


def _list_standings(
    scene: ThreadScene, found: Iterable[SlotLine], state: ThreadState
) -> dict[int, MessageStanding]:
    frames = state.paging.frames
    pages = {slot.index: build_slot_page_id(slot.index) for slot in found}
    changed = [
        page_id
        for page_id in pages.values()
        if page_id not in frames or _is_short(frames[page_id])
    ]
    left = eviction_runs.find_last_steps(scene.thread, changed, up_to=scene.seq)
    return {
        index: build_standing(frames.get(page_id), left.get(page_id), at=scene.seq)
        for index, page_id in pages.items()
    }


def build_standing(
    frame: Frame | None, left: EvictionStep | None, *, at: int
) -> MessageStanding:
    """Build a message's standing from its frame and its last eviction step."""
    seq = left.seq if left else None
    now = seq == at
    if frame is None:
        if left is None:
            return MessageStanding(kind="out", text="not in")
        return MessageStanding(
            kind="out", text="leaves now" if now else "left", seq=seq, now=now
        )
    if frame.parts:
        return MessageStanding(kind="fault", text="fetched in part")
    if frame.level:
        text = f"shortened to ~{frame.level}"
        return MessageStanding(kind="short", text=text, seq=seq, now=now)
    if frame.recalled:
        return MessageStanding(kind="fault", text="fetched back")
    return MessageStanding(kind="in", text="in")
