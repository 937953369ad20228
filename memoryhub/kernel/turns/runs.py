"""Recorded runs: messages of a file enter a thread once, in order. Pure."""

from __future__ import annotations

from memoryhub.errors import StaleError
from memoryhub.kernel.commands import ImportMessages
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.events import ImportAdvanced, RunRecorded
from memoryhub.kernel.state.page_events import TurnBegan
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads import slots
from memoryhub.kernel.turns import turns


def decide_import_messages(
    decision: Decision, command: ImportMessages, pages: PageTable
) -> None:
    """Append the next messages of a run. All or none.

    Emits run.recorded with the first batch, slot.appended per message, turn.began right
    before each message that opens a turn, and import.advanced. Raises StaleError when
    the thread holds anything but the first `after` messages.
    """
    state = decision.state
    if command.after != state.imported or state.slot_count != state.imported:
        raise StaleError(imported=state.imported)
    slots.require_room(state, len(command.messages))
    if command.run is not None:
        decision.emit(command.run, command.info)
    for message in command.messages:
        if message.turn:
            decision.emit(
                TurnBegan(n=decision.turn + 1, continues=_is_continuation(decision))
            )
        slots.append_one(decision, message.slot, pages)
    total = command.after + len(command.messages)
    decision.emit(ImportAdvanced(count=total, digest=command.digest))


def _is_continuation(decision: Decision) -> bool:
    return turns.should_continue_exchange(decision.paging)


def apply_run_recorded(state: ThreadState, event: RunRecorded) -> ThreadState:
    return state


def apply_import_advanced(state: ThreadState, event: ImportAdvanced) -> ThreadState:
    return state._replace(imported=event.count, import_digest=event.digest)


PART = KernelPart(
    commands={ImportMessages: decide_import_messages},
    events={RunRecorded: apply_run_recorded, ImportAdvanced: apply_import_advanced},
)
