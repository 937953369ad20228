"""Searches by a model: counted, and nothing else comes of them. Pure."""

from __future__ import annotations

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.page_commands import RecordSearch
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.page_events import PagesSearched
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


PART = Part(commands={RecordSearch: record_search}, events={PagesSearched: searched})
