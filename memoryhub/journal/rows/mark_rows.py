"""Rows of marked turns, to list the marked turns of a project; inherited ones too."""

from __future__ import annotations

from collections.abc import Iterable

from memoryhub.journal.rows.checkpoint_rows import add_event_data
from memoryhub.journal.rows.current_rows import Projection, StateChange
from memoryhub.journal.rows.rows import MarkedTurnRow
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.turns.marks import TurnMarked
from memoryhub.models.slots import MarkedTurn


def _list_turns(state: ThreadState) -> Iterable[int]:
    return [*state.marks]


def _build_row(state: ThreadState, turn: int) -> MarkedTurnRow | None:
    mark = state.marks.get(turn)
    if mark is None:
        return None
    thread, seq = state.locate_event(mark.clock)
    return MarkedTurnRow(
        thread_id=state.id,
        turn=turn,
        project_id=state.project,
        subject_id=state.subject,
        mark=mark.word,
        at=None,
        by=None,
        event_thread=thread,
        event_seq=seq,
    )


def _list_own(change: StateChange) -> Iterable[int]:
    event = change.event
    assert isinstance(event, TurnMarked)
    return [event.turn]


def _list_erased(change: StateChange) -> Iterable[int]:
    return {*change.before.marks} - {*change.after.marks}


MARKED_TURNS = Projection(
    word="marked_turn_rows",
    model=MarkedTurn,
    row=MarkedTurnRow,
    names=_list_turns,
    build_row=_build_row,
    changed_names={TurnMarked: _list_own, RecordsErased: _list_erased},
    complete_rows=add_event_data,
)
