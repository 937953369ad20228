"""Searches by a model: counting, and the records that a search leaves out. Pure."""

from __future__ import annotations

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.page_commands import RecordSearch
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.page_events import PagesSearched
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.state.paging import Frame, list_values
from memoryhub.kernel.state.state import ThreadState

#: Most searches of one exchange.
MOST = 3


def decide_record_search(
    decision: Decision, command: RecordSearch, pages: PageTable
) -> None:
    """Count a search. Emits pages.searched."""
    event = PagesSearched(turn=decision.turn, by="model", results=command.results)
    decision.emit(event)


def apply_pages_searched(state: ThreadState, event: PagesSearched) -> ThreadState:
    return state


def get_exchange_seq(state: ThreadState) -> int:
    """Return the seq of the first message of the exchange; 0 if inherited."""
    last = state.paging.last_user
    return 0 if last is None else max(0, state.to_seq(last.seq))


def list_running(state: ThreadState) -> list[Range]:
    """List the records that the running exchange shows whole anyway.

    The newest message of the user, and frames at FULL that joined the context since. A
    search can still find an evicted result.
    """
    user = state.paging.last_user
    if user is None:
        return []
    places = [
        frame.entry.full.location[:2]
        for frame in list_values(state.paging.frames)
        if frame.level == FULL
        and not frame.parts
        and _get_joined_clock(frame) > user.seq
    ]
    return [
        (thread, seq, seq) for thread, seq in (state.locate_event(user.seq), *places)
    ]


def _get_joined_clock(frame: Frame) -> int:
    """Return the clock at which a page was said, or brought by memory."""
    brought = frame.recalled or frame.entry.slot is None
    return frame.mapped_seq if brought else frame.entry.created_seq


PART = KernelPart(
    commands={RecordSearch: decide_record_search},
    events={PagesSearched: apply_pages_searched},
)
