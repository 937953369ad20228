"""Citations: pages on which the model's messages rely, and ratings of turns. Pure.

A citation names pages in prose, so it counts no look-up of the TLB. Ids that name no
live page are the model's text: events count them and do not hold them. See decision 82.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from memoryhub.errors import NotFoundError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import residency
from memoryhub.kernel.paging.page_commands import RateTurn
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.page_events import CitingEvent, PagesCited, TurnRated
from memoryhub.kernel.state.paging import add_counts
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names


def emit_citations(
    decision: Decision, cites: Collection[str], pages: PageTable, *, slot: int
) -> None:
    """Record the citations of a message about to be appended. Emits pages.cited."""
    cited = _resolve_pages(decision, cites, pages)
    event = PagesCited(
        turn=decision.turn, cause="append", by="model", slot=slot, **cited
    )
    decision.emit(event)


def decide_rate_turn(decision: Decision, command: RateTurn, pages: PageTable) -> None:
    """Rate a turn. Emits turn.rated. Raises NotFoundError for a turn not begun."""
    if not 0 < command.turn <= decision.turn:
        raise NotFoundError
    event = TurnRated(
        turn=decision.turn,
        by=command.by,
        rated=command.turn,
        corrected=command.corrected,
        **_resolve_pages(decision, dict.fromkeys(command.cited), pages),
    )
    decision.emit(event)


def _resolve_pages(
    decision: Decision, cites: Collection[str], pages: PageTable
) -> dict[str, Any]:
    """Return the fields of an event that cites these ids. At most two queries."""
    paging = decision.paging
    valid = [each for each in cites if names.is_valid(each)]
    unread = [
        each
        for each in valid
        if paging.find_tier(each) is None and paging.tlb.find(each) is None
    ]
    gone = {*unread} - {*(pages.list_entries(unread) if unread else ())}
    live = [each for each in valid if each not in gone]
    frames = [paging.frames.get(each) for each in live]
    return {
        "page_ids": live,
        "tokens": [frame.tokens if frame else 0 for frame in frames],
        "unknown": len(cites) - len(live),
    }


def apply_pages_cited(state: ThreadState, event: PagesCited) -> ThreadState:
    state = _apply_references(state, event)
    counts = add_counts(state.paging.counts, ("cited",), by=len(event.page_ids))
    counts = add_counts(counts, ("cited_unknown",), by=event.unknown)
    return state._replace(paging=state.paging._replace(counts=counts))


def apply_turn_rated(state: ThreadState, event: TurnRated) -> ThreadState:
    return _apply_references(state, event)


def _apply_references(state: ThreadState, event: CitingEvent) -> ThreadState:
    for each in event.split():
        state = residency.apply_page_referenced(state, each)
    return state


PART = KernelPart(
    commands={RateTurn: decide_rate_turn},
    events={PagesCited: apply_pages_cited, TurnRated: apply_turn_rated},
)
