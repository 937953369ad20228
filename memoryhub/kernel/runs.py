"""Recorded runs: messages of a file enter a thread, once, in their order. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memoryhub.errors import StaleError
from memoryhub.kernel import slots
from memoryhub.kernel.commands import Draft, ImportMessages
from memoryhub.kernel.events import ImportAdvanced, RunRecorded, TurnBegan
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.threads import require_open


def advance(state: ThreadState, command: ImportMessages) -> Iterator[Draft]:
    """Append the next messages of a run. All or none.

    Emits run.recorded with the first batch, slot.appended per message, turn.began
    right before each that opens one, and import.advanced. Raises StaleError when the
    thread holds anything but the first `after` messages.
    """
    require_open(state)
    if command.after != state.imported or state.slot_count != state.imported:
        raise StaleError(imported=state.imported)
    slots.require_room(state, len(command.messages))
    if command.run is not None:
        yield Draft(event=command.run, payload=command.info)
    turn = state.turn_count
    for index, message in enumerate(command.messages, start=state.slot_count):
        if message.turn:
            turn += 1
            yield Draft(event=TurnBegan(n=turn))
        yield slots.draft(message.slot, index=index)
    total = command.after + len(command.messages)
    yield Draft(event=ImportAdvanced(count=total, digest=command.digest))


def recorded(state: ThreadState, event: RunRecorded) -> ThreadState:
    return state


def advanced(state: ThreadState, event: ImportAdvanced) -> ThreadState:
    return replace(state, imported=event.count, import_digest=event.digest)


def turn_began(state: ThreadState, event: TurnBegan) -> ThreadState:
    return replace(state, turn_count=event.n)
