"""The conversation at an event: messages around it, and which the model sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from inspector.drawing import chat
from inspector.drawing.chat import Bubble
from inspector.drawing.scenes import Context, Scene
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.kernel.state.paging import Frame, values
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import eviction_runs
from memoryhub.queries.paging.eviction_runs import EvictionStep
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.slots import SlotLine
from memoryhub.queries.turns import turns

#: Messages before and after the one at hand, and those that are newest.
BEFORE, AFTER, NEWEST = 4, 4, 4
#: On each side while the thumb is being dragged, which is all that is shown then.
PASSING = 2
#: Characters of a message that are shown, and of all of them.
MESSAGE_CHARS, PANE_CHARS = 8_192, 49_152
#: Messages between two windows that are shown rather than folded.
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What became of a message, in a word and the event by which."""

    #: `in`, `short`, `fault` or `out`: how its mark looks.
    kind: str
    text: str
    #: None where no event of this thread tells.
    seq: int | None = None
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message in its place."""

    bubble: Bubble
    #: None while it is not known: the thumb is still being dragged.
    standing: Standing | None
    #: The turn that begins with it is another one than that of the message before.
    turn: int | None
    #: Tokens of that turn's request; None while none is recorded.
    packed: int | None
    here: bool

    @property
    def page_id(self) -> str:
        return slot_page_id(self.bubble.slot.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Messages that are not shown, and how many of them the model sees."""

    first: int
    last: int
    inside: int
    shortened: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def picture(scene: Scene, line: EventLine | None, state: ThreadState | None) -> Context:
    """Draw the messages around an event. Nine queries, more in a fork.

    Without a state nothing is told of what the model sees.
    """
    thread, seq = scene.thread, scene.seq
    total = slots.count_slots(thread, at_seq=seq)
    here = min(slot_of(line, total - 1), total - 1)
    windows = [passing(here, total)] if scene.passing else split(here, total)
    wanted = [index for window in windows for index in window]
    found = slots.get_slots(thread, wanted)
    stand = _standings(scene, found, state) if state else {}
    packed = _packed(scene, found) if state else {}
    parts = _parts(found, stand, windows, state, here=here, packed=packed)
    return {"parts": parts, "total": total}


def slot_of(line: EventLine | None, newest: int) -> int:
    """Return the message that an event is about; the newest if it is about none."""
    body: Any = line.body if line else {}
    if line is not None and line.type == "slot.appended":
        return int(body["index"])
    for page_id in body.get("page_ids") or [body.get("page_id")]:
        name, _, number = str(page_id).partition("-")
        if name == "slot" and number.isdigit():
            return int(number)
    return newest


def split(here: int, total: int) -> list[range]:
    """Split into the messages around one and the newest; one range where they meet."""
    if total <= 0:
        return []
    around = range(max(0, here - BEFORE), min(total, here + AFTER + 1))
    newest = range(max(0, total - NEWEST), total)
    first = 0 if around.start <= _FEW else around.start
    if newest.start <= around.stop + _FEW:
        return [range(first, total)]
    return [range(first, around.stop), newest]


def passing(here: int, total: int) -> range:
    """Pick the few messages around one that are seen in passing."""
    return range(max(0, here - PASSING), min(total, here + PASSING + 1))


def _parts(
    found: Sequence[SlotLine],
    stand: dict[int, Standing],
    windows: Sequence[range],
    state: ThreadState | None,
    *,
    here: int,
    packed: dict[int, int],
) -> list[Message | Folded]:
    """Put messages in their order, and what is left out between them."""
    room = chat.Room(left=PANE_CHARS, per_payload=MESSAGE_CHARS)
    parts, end = list[Message | Folded](), 0
    by_index = {slot.index: slot for slot in found}
    for window in windows:
        if window.start > end and state is not None:
            parts.append(_folded(end, window.start - 1, state))
        end, turn = window.stop, -1
        for slot in (by_index[n] for n in window if n in by_index):
            marked = slot.turn if slot.turn != turn and slot.turn else None
            parts.append(
                Message(
                    bubble=chat.bubble(slot, room),
                    standing=stand.get(slot.index),
                    turn=marked,
                    packed=packed.get(marked) if marked else None,
                    here=slot.index == here,
                )
            )
            turn = slot.turn
    return parts


def _packed(scene: Scene, found: Iterable[SlotLine]) -> dict[int, int]:
    numbers = {slot.turn for slot in found if slot.turn}
    if not numbers:
        return {}
    return turns.get_packed_tokens(scene.thread, numbers, up_to=scene.seq)


def _folded(first: int, last: int, state: ThreadState) -> Folded:
    frames = [
        frame
        for frame in values(state.paging.frames)
        if frame.entry.slot is not None and first <= frame.entry.slot <= last
    ]
    return Folded(
        first=first,
        last=last,
        inside=len(frames),
        shortened=sum(_is_short(frame) for frame in frames),
    )


def _is_short(frame: Frame) -> bool:
    return bool(frame.level or frame.parts)


def _standings(
    scene: Scene, found: Iterable[SlotLine], state: ThreadState
) -> dict[int, Standing]:
    frames = state.paging.frames
    pages = {slot.index: slot_page_id(slot.index) for slot in found}
    changed = [
        page_id
        for page_id in pages.values()
        if page_id not in frames or _is_short(frames[page_id])
    ]
    left = eviction_runs.last_steps(scene.thread, changed, up_to=scene.seq)
    return {
        index: standing(frames.get(page_id), left.get(page_id), at=scene.seq)
        for index, page_id in pages.items()
    }


def standing(frame: Frame | None, left: EvictionStep | None, *, at: int) -> Standing:
    """Tell what became of a message, by its frame and how it last left or shrank."""
    seq = left.seq if left else None
    now = seq == at
    if frame is None:
        if left is None:
            return Standing(kind="out", text="not in")
        return Standing(
            kind="out", text="leaves now" if now else "left", seq=seq, now=now
        )
    if frame.parts:
        return Standing(kind="fault", text="fetched in part")
    if frame.level:
        text = f"shortened to ~{frame.level}"
        return Standing(kind="short", text=text, seq=seq, now=now)
    if frame.recalled:
        return Standing(kind="fault", text="fetched back")
    return Standing(kind="in", text="in")
