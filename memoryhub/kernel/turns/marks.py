"""Marks of turns: deciding and folding that an answer is wrong or good. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.errors import NotFoundError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.bodies import Count, EventBody, Flag
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.turn_marks import AnswerMark, MarkWord


class TurnMarked(EventBody):
    """An answer was marked; the newest mark of a turn counts. Payload: the comment."""

    event_type = "turn.marked"
    sealed = True

    turn: Count
    #: None: the turn has no mark any more.
    mark: MarkWord | None = None
    commented: Flag = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTurn(MemoryCommand):
    turn: int
    #: None removes the mark.
    mark: MarkWord | None
    #: JSON text, UTF-8; None without a comment.
    comment: bytes | None = None


def decide_mark_turn(decision: Decision, command: MarkTurn, pages: PageTable) -> None:
    """Mark a turn, or remove its mark. Emits turn.marked.

    Emits nothing where nothing changes: no mark to remove, or the same mark, and no
    comment before or now. Raises NotFoundError for a turn not begun.
    """
    if not 0 < command.turn <= decision.turn:
        raise NotFoundError
    held = decision.state.marks.get(command.turn)
    is_same = (held and held.word) == command.mark
    if is_same and not (held and held.commented) and command.comment is None:
        return
    comment = command.comment
    event = TurnMarked(
        turn=command.turn, mark=command.mark, commented=comment is not None
    )
    payload = b"{}" if comment is None else b'{"comment":' + comment + b"}"
    decision.emit(event, payload)


def apply_turn_marked(state: ThreadState, event: TurnMarked) -> ThreadState:
    if event.mark is None:
        return state._replace(marks=state.marks.discard(event.turn))
    mark = AnswerMark(state.clock + 1, event.mark, event.commented)
    return state._replace(marks=state.marks.insert(event.turn, mark))


PART = KernelPart(
    # A person marks answers of threads that were closed long ago.
    upkeep={MarkTurn: decide_mark_turn},
    events={TurnMarked: apply_turn_marked},
)
