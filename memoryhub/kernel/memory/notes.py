"""Notes: lines of the scratchpad, of which the newest stay. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from rpds import Queue

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.parts import Capacity, KernelPart
from memoryhub.kernel.slices import Measure, Slice
from memoryhub.kernel.state.bodies import (
    Count,
    EventBody,
    SearchSpec,
    Size,
)
from memoryhub.kernel.state.erased import ErasedPlaces
from memoryhub.kernel.state.page_events import By
from memoryhub.kernel.state.state import ThreadState

DEFAULT_MAX_NOTES = 1_000


class Note(NamedTuple):
    """A line of the scratchpad; its text is the payload of its event."""

    clock: int
    bytes: int


class Scratchpad(NamedTuple):
    """All lines of the scratchpad, oldest first, and their total bytes."""

    lines: Queue[Note] = Queue()
    bytes: int = 0

    def __bool__(self) -> bool:
        return len(self.lines) > 0


class NoteAdded(EventBody):
    """A line was added to the scratchpad. Payload: its text."""

    event_type = "note.added"
    sealed = True
    searched = SearchSpec("note", ("text",))

    bytes: Size
    #: Number of oldest notes that left the scratchpad for this note.
    trimmed: Count = 0
    #: Actor on whose account the note was added; None: the agent.
    by: By | None = None


class NotesCleared(EventBody):
    """The scratchpad is empty."""

    event_type = "notes.cleared"

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    #: JSON text, UTF-8.
    text: bytes
    #: Bytes of the text itself, UTF-8.
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNotes(MemoryCommand):
    notes: tuple[NewNote, ...]
    by: By | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearNotes(MemoryCommand):
    pass


def get_max_notes(state: ThreadState) -> int:
    """Return the most notes that the thread's scratchpad keeps."""
    return state.config.max_notes or DEFAULT_MAX_NOTES


def decide_add_notes(decision: Decision, command: AddNotes, pages: PageTable) -> None:
    """Add lines; beyond `max_notes` the oldest leave the scratchpad, not the journal.

    Emits note.added, one a line.
    """
    held = len(NOTES.get_current(decision.state).lines)
    for note in command.notes:
        trimmed = max(0, held + 1 - get_max_notes(decision.state))
        held += 1 - trimmed
        decision.emit(
            NoteAdded(bytes=note.bytes, trimmed=trimmed, by=command.by),
            b'{"text":' + note.text + b"}",
        )


def decide_clear_notes(
    decision: Decision, command: ClearNotes, pages: PageTable
) -> None:
    """Empty the scratchpad. Emits notes.cleared, or nothing when it is empty."""
    if count := len(NOTES.get_current(decision.state).lines):
        decision.emit(NotesCleared(count=count))


def apply_note_added(state: ThreadState, event: NoteAdded) -> ThreadState:
    lines, size = NOTES.get_current(state)
    for _ in range(event.trimmed):
        # rpds' stub misses that these are methods.
        size -= lines.peek().bytes  # type: ignore[operator]
        lines = lines.dequeue()  # type: ignore[call-arg]
    lines = lines.enqueue(Note(state.clock + 1, event.bytes))
    return NOTES.replace_value(state, Scratchpad(lines, size + event.bytes))


def apply_notes_cleared(state: ThreadState, event: NotesCleared) -> ThreadState:
    return NOTES.replace_value(state, Scratchpad())


def _to_json(after: Scratchpad, before: Scratchpad) -> dict[str, Any]:
    """Convert notes to [number of the older notes' last that stay, new notes]."""
    old, new = [*before.lines], [*after.lines]
    newest = old[-1].clock if old else -1
    shared = sum(1 for note in new if note.clock <= newest)
    if new[:shared] != old[len(old) - shared :]:
        shared = 0
    added_lines = [[*note] for note in new[shared:]]
    return {"notes": [shared, added_lines], "note_bytes": after.bytes}


def _from_json(plain: Mapping[str, Any], before: Scratchpad) -> Scratchpad:
    shared, added_lines = plain["notes"]
    lines = before.lines
    if added_lines or shared != len(lines):
        stay = islice(lines, len(lines) - shared, None)
        lines = Queue([*stay, *(Note(*each) for each in added_lines)])
    return Scratchpad(lines, plain["note_bytes"])


def _remove_erased(scratchpad: Scratchpad, gone: ErasedPlaces) -> Scratchpad:
    stay = [note for note in scratchpad.lines if not gone.has_clock(note.clock)]
    if len(stay) == len(scratchpad.lines):
        return scratchpad
    return Scratchpad(Queue(stay), sum(note.bytes for note in stay))


NOTES = Slice(
    name="notes",
    empty=Scratchpad(),
    to_json=_to_json,
    from_json=_from_json,
    without=_remove_erased,
    measures={
        "notes": Measure(read=lambda scratchpad: len(scratchpad.lines)),
        "note_bytes": Measure(
            read=lambda scratchpad: scratchpad.bytes,
            places=frozenset({"stats", "timeline"}),
        ),
    },
    records=lambda scratchpad: scratchpad.lines,
)
PART = KernelPart(
    commands={AddNotes: decide_add_notes, ClearNotes: decide_clear_notes},
    events={NoteAdded: apply_note_added, NotesCleared: apply_notes_cleared},
    slice=NOTES,
    limits={"max_notes": Capacity(DEFAULT_MAX_NOTES, most=10_000)},
)
