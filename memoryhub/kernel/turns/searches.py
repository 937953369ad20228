"""Searches by a model: what they leave out, and that they are counted. Pure."""

from __future__ import annotations

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.page_commands import RecordSearch
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.page_events import PagesSearched
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.state.paging import Frame, values
from memoryhub.kernel.state.state import ThreadState

#: Searches of one exchange.
MOST = 3


def record_search(decision: Decision, command: RecordSearch, pages: PageTable) -> None:
    """Count a search. Emits pages.searched."""
    event = PagesSearched(turn=decision.turn, by="model", results=command.results)
    decision.emit(event)


def searched(state: ThreadState, event: PagesSearched) -> ThreadState:
    return state


def exchange_seq(state: ThreadState) -> int:
    """Return the seq of the message that the exchange began with; 0 if inherited."""
    last = state.paging.last_user
    return 0 if last is None else max(0, state.seq_of(last.seq))


def list_running(state: ThreadState) -> list[Range]:
    """List the records that the running exchange shows whole anyway.

    The newest message of the user, and frames at FULL that joined the context since: a
    result that has left can be found.
    """
    user = state.paging.last_user
    if user is None:
        return []
    places = [
        frame.entry.full.location[:2]
        for frame in values(state.paging.frames)
        if frame.level == FULL
        and not frame.parts
        and _get_joined_clock(frame) > user.seq
    ]
    return [(thread, seq, seq) for thread, seq in (state.place(user.seq), *places)]


def _get_joined_clock(frame: Frame) -> int:
    """Return the clock at which a page was said, or brought by memory."""
    brought = frame.recalled or frame.entry.slot is None
    return frame.mapped_seq if brought else frame.entry.created_seq


PART = Part(commands={RecordSearch: record_search}, events={PagesSearched: searched})
