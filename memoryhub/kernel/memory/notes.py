"""Notes: lines of the scratchpad, newest kept. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from rpds import Queue

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.parts import Capacity, Part
from memoryhub.kernel.slices import Measure, Slice
from memoryhub.kernel.state.bodies import (
    Count,
    Event,
    Searched,
    Size,
)
from memoryhub.kernel.state.erased import Erased
from memoryhub.kernel.state.page_events import By
from memoryhub.kernel.state.state import ThreadState

DEFAULT_MAX_NOTES = 1_000


class Note(NamedTuple):
    """A line of the scratchpad; its text is the payload of its event."""

    clock: int
    bytes: int


class Scratchpad(NamedTuple):
    """All lines, oldest first, and their bytes."""

    lines: Queue[Note] = Queue()
    bytes: int = 0

    def __bool__(self) -> bool:
        return len(self.lines) > 0


class NoteAdded(Event):
    """A line was added to the scratchpad. Payload: its text."""

    event_type = "note.added"
    sealed = True
    searched = Searched("note", ("text",))

    bytes: Size
    #: Oldest notes that left the scratchpad for it.
    trimmed: Count = 0
    #: On whose account; None: its agent's.
    by: By | None = None


class NotesCleared(Event):
    """The scratchpad is empty."""

    event_type = "notes.cleared"

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    #: JSON text, UTF-8.
    text: bytes
    #: Of the text itself, UTF-8.
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNotes(MemoryCommand):
    notes: tuple[NewNote, ...]
    by: By | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearNotes(MemoryCommand):
    pass


def limit(state: ThreadState) -> int:
    """How many lines the thread keeps."""
    return state.config.max_notes or DEFAULT_MAX_NOTES


def add_notes(decision: Decision, command: AddNotes, pages: PageTable) -> None:
    """Add lines; beyond `max_notes` the oldest leave the scratchpad, not the journal.

    Emits note.added, one a line.
    """
    held = len(NOTES.value(decision.state).lines)
    for note in command.notes:
        trimmed = max(0, held + 1 - limit(decision.state))
        held += 1 - trimmed
        decision.emit(
            NoteAdded(bytes=note.bytes, trimmed=trimmed, by=command.by),
            b'{"text":' + note.text + b"}",
        )


def clear_notes(decision: Decision, command: ClearNotes, pages: PageTable) -> None:
    """Empty the scratchpad. Emits notes.cleared, or nothing when it is empty."""
    if count := len(NOTES.value(decision.state).lines):
        decision.emit(NotesCleared(count=count))


def added(state: ThreadState, event: NoteAdded) -> ThreadState:
    lines, size = NOTES.value(state)
    for _ in range(event.trimmed):
        # rpds' stub misses that these are methods.
        size -= lines.peek().bytes  # type: ignore[operator]
        lines = lines.dequeue()  # type: ignore[call-arg]
    lines = lines.enqueue(Note(state.clock + 1, event.bytes))
    return NOTES.changed(state, Scratchpad(lines, size + event.bytes))


def cleared(state: ThreadState, event: NotesCleared) -> ThreadState:
    return NOTES.changed(state, Scratchpad())


def _to_json(after: Scratchpad, before: Scratchpad) -> dict[str, Any]:
    """Notes as [how many of the older ones' last stay, those that follow them]."""
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


def _without(scratchpad: Scratchpad, gone: Erased) -> Scratchpad:
    stay = [note for note in scratchpad.lines if not gone.at(note.clock)]
    if len(stay) == len(scratchpad.lines):
        return scratchpad
    return Scratchpad(Queue(stay), sum(note.bytes for note in stay))


NOTES = Slice(
    name="notes",
    empty=Scratchpad(),
    to_json=_to_json,
    from_json=_from_json,
    without=_without,
    measures={
        "notes": Measure(read=lambda scratchpad: len(scratchpad.lines)),
        "note_bytes": Measure(
            read=lambda scratchpad: scratchpad.bytes,
            places=frozenset({"stats", "timeline"}),
        ),
    },
    records=lambda scratchpad: scratchpad.lines,
)
PART = Part(
    commands={AddNotes: add_notes, ClearNotes: clear_notes},
    events={NoteAdded: added, NotesCleared: cleared},
    slice=NOTES,
    limits={"max_notes": Capacity(DEFAULT_MAX_NOTES, most=10_000)},
)
