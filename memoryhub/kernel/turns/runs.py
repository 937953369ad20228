"""Recorded runs: messages of a file enter a thread, once, in their order. Pure."""

from __future__ import annotations

from memoryhub.errors import StaleError
from memoryhub.kernel.commands import ImportMessages
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.events import ImportAdvanced, RunRecorded
from memoryhub.kernel.state.page_events import TurnBegan
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads import slots
from memoryhub.kernel.turns import turns


def advance(course: Course, command: ImportMessages, pages: PageTable) -> None:
    """Append the next messages of a run. All or none.

    Emits run.recorded with the first batch, slot.appended per message, turn.began
    right before each that opens one, and import.advanced. Raises StaleError when the
    thread holds anything but the first `after` messages.
    """
    state = course.state
    if command.after != state.imported or state.slot_count != state.imported:
        raise StaleError(imported=state.imported)
    slots.require_room(state, len(command.messages))
    if command.run is not None:
        course.emit(command.run, command.info)
    for message in command.messages:
        if message.turn:
            course.emit(TurnBegan(n=course.turn + 1, continues=_continues(course)))
        slots.append_one(course, message.slot, pages)
    total = command.after + len(command.messages)
    course.emit(ImportAdvanced(count=total, digest=command.digest))


def _continues(course: Course) -> bool:
    return turns.continues_exchange(course.paging)


def recorded(state: ThreadState, event: RunRecorded) -> ThreadState:
    return state


def advanced(state: ThreadState, event: ImportAdvanced) -> ThreadState:
    return state._replace(imported=event.count, import_digest=event.digest)


PART = Part(
    commands={ImportMessages: advance},
    events={RunRecorded: recorded, ImportAdvanced: advanced},
)
