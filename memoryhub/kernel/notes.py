"""Notes: lines of the scratchpad, newest kept. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from rpds import Queue

from memoryhub.kernel import memory_commands as commands
from memoryhub.kernel import memory_events as events
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.padding import padded
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import Note


def add_notes(course: Course, command: commands.AddNotes, pages: PageTable) -> None:
    """Add lines; beyond `max_notes` the oldest leave the scratchpad, not the journal.

    Emits note.added, one a line.
    """
    held = len(course.state.memory.contents.notes)
    for note in command.notes:
        trimmed = max(0, held + 1 - course.state.max_notes)
        held += 1 - trimmed
        course.emit(
            events.NoteAdded(bytes=padded(note.bytes), trimmed=trimmed),
            b'{"text":' + note.text + b"}",
        )


def clear_notes(course: Course, command: commands.ClearNotes, pages: PageTable) -> None:
    """Empty the scratchpad. Emits notes.cleared, or nothing when it is empty."""
    if count := len(course.state.memory.contents.notes):
        course.emit(events.NotesCleared(count=count))


def added(state: ThreadState, event: events.NoteAdded) -> ThreadState:
    contents = state.memory.contents
    notes, size = contents.notes, contents.note_bytes
    for _ in range(event.trimmed):
        # rpds' stub misses that these are methods.
        size -= notes.peek().bytes  # type: ignore[operator]
        notes = notes.dequeue()  # type: ignore[call-arg]
    notes = notes.enqueue(Note(state.clock + 1, event.bytes))
    return _with(state, notes, size + event.bytes)


def cleared(state: ThreadState, event: events.NotesCleared) -> ThreadState:
    return _with(state, Queue(), 0)


def _with(state: ThreadState, notes: Queue[Note], size: int) -> ThreadState:
    contents = state.memory.contents._replace(notes=notes, note_bytes=size)
    return state._replace(memory=state.memory._replace(contents=contents))


PART = Part(
    commands={commands.AddNotes: add_notes, commands.ClearNotes: clear_notes},
    events={events.NoteAdded: added, events.NotesCleared: cleared},
)
