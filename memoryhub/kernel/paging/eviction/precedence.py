"""Precedence: the order in which pages get room in a request. Pure.

A page may take the room of all pages that rank below it, and of no others. So a page
fetched for an exchange is in its next request, and a page that cannot be there is
refused before it is charged. See decision 44.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from memoryhub.kernel.paging.eviction import groups, pins
from memoryhub.kernel.state.paging import Frame, list_values
from memoryhub.kernel.state.state import ThreadState


class Rank(IntEnum):
    """Rank of a page; lower values go first."""

    #: Pinned by a command, or the system prompt.
    PINNED = 0
    #: The newest message of the user.
    USER = 1
    #: Fetched since the newest turn began: no request has shown the page yet.
    DUE = 2
    #: Fetched in this exchange, and shown to the model since.
    FETCHED = 3
    #: Other messages of this exchange, the newest first.
    MESSAGE = 4
    HISTORY = 5


class Precedence(NamedTuple):
    rank: Rank
    #: Among messages of the exchange, the newest, so the highest slot, goes first.
    order: int = 0


PINNED = Precedence(Rank.PINNED)
USER = Precedence(Rank.USER)
DUE = Precedence(Rank.DUE)
HISTORY = Precedence(Rank.HISTORY)
#: After every message of the exchange, before all other pages.
SPOKEN = Precedence(Rank.MESSAGE, 1)


def rank_pages(
    state: ThreadState, rules: Mapping[str, str] | None = None
) -> dict[str, Precedence]:
    """Return the precedence of each mapped page. Linear in the frames.

    `rules` are the pin rules of pages, if they are at hand.
    """
    rules = pins.list_pinned(state) if rules is None else rules
    found = {
        frame.page_id: _rank_frame(frame, state, rules.get(frame.page_id))
        for frame in list_values(state.paging.frames)
    }
    head = groups.find_newest_calls(state.paging, state.slot_count)
    if head is not None and found[head.page_id].rank == Rank.MESSAGE:
        # Ranked as the next of its results: no result can stand without its call.
        found[head.page_id] = _build_next_precedence(state)
    return found


def _build_next_precedence(state: ThreadState) -> Precedence:
    """Build the precedence of a message that is appended to this state."""
    return Precedence(Rank.MESSAGE, -state.slot_count)


def _rank_frame(frame: Frame, state: ThreadState, rule: str | None) -> Precedence:
    paging, slot = state.paging, frame.entry.slot
    begins = paging.find_exchange_begin(state.slot_count)
    if rule in ("explicit", "system"):
        return PINNED
    if slot is not None and paging.last_user and slot == paging.last_user.slot:
        return USER
    recent = slot is not None and begins is not None and slot >= begins
    # Memory may also bring a message of the exchange that never left: nobody fetched
    # it.
    fetched = frame.recalled and not (recent and frame.page_id not in paging.history)
    if fetched and (rank := _find_fetched_rank(frame, state)):
        return Precedence(rank)
    if recent:
        return Precedence(Rank.MESSAGE, -(slot or 0))
    return HISTORY


def _find_fetched_rank(frame: Frame, state: ThreadState) -> Rank | None:
    """Return the rank of a page fetched for the running exchange; else None.

    None before any turn. A thread without messages of a user begins every turn anew.
    """
    paging = state.paging
    past = paging.history.get(frame.page_id)
    if not state.turn_count:
        return None
    if past is not None and past.faulted_turn == state.turn_count:
        return Rank.DUE
    user = paging.last_user
    return Rank.FETCHED if user and frame.mapped_seq > user.seq else None


def compute_room(state: ThreadState, page_id: str, own: Precedence) -> int:
    """Compute the tokens for a page of this precedence, once all below it has left."""
    frames = state.paging.frames
    above = sum(
        frames[name].tokens
        for name, each in rank_pages(state).items()
        if name != page_id and each <= own
    )
    return state.paging.settings.usable - above


def list_kept_pages(
    state: ThreadState, rules: Mapping[str, str] | None = None
) -> set[str]:
    """Return the pages, besides the pinned, that no run evicts: they are due next.

    `rules` are the pin rules of pages, if they are at hand.
    """
    return {
        name
        for name, each in rank_pages(state, rules).items()
        if Rank.PINNED < each.rank <= Rank.FETCHED
        or each == _build_next_precedence(state)
    }


def list_below(state: ThreadState, own: Precedence) -> list[str]:
    """List the pages that may leave for one of this precedence, last in rank first.

    Uncovered messages of an observed thread come after all others.
    """
    found, frames, last = rank_pages(state), state.paging.frames, list_uncovered(state)
    names = [name for name, each in found.items() if each > own]
    return sorted(
        names,
        key=lambda name: (
            name in last,
            _build_last_key(found[name]),
            frames[name].place,
        ),
    )


def list_uncovered(state: ThreadState) -> set[str]:
    """Return the mapped messages that no observation covers; none unless observed."""
    if not state.paging.settings.observe:
        return set()
    ranges = state.observing.list_uncovered(state.slot_count)
    return {
        frame.page_id
        for frame in list_values(state.paging.frames)
        if (slot := frame.entry.slot) is not None
        and any(begin <= slot < end for begin, end in ranges)
    }


def list_instructing(state: ThreadState) -> set[str]:
    """Return the mapped pages that were pinned by a command, and the system prompt."""
    rules = pins.list_pinned(state)
    return {name for name, rule in rules.items() if rule in ("explicit", "system")}


def _build_last_key(each: Precedence) -> tuple[int, int]:
    return -each.rank, -each.order
