"""Precedence: what stands in a request before what, when not all of it can. Pure.

A page may take the room of all that ranks below it, and of nothing else. So what was
fetched for an exchange is in its next request, and what can't be is refused before it
is charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from memoryhub.kernel.paging import groups, pins
from memoryhub.kernel.state.paging import Frame, values
from memoryhub.kernel.state.state import ThreadState


class Rank(IntEnum):
    """Lower goes first."""

    #: Pinned by a command, or the system prompt.
    PINNED = 0
    #: The newest message of the user.
    USER = 1
    #: Fetched since the newest turn began: no request has shown it yet.
    DUE = 2
    #: Fetched in this exchange, and shown to the model since.
    FETCHED = 3
    #: Other messages of this exchange, the newest first.
    MESSAGE = 4
    HISTORY = 5


class Precedence(NamedTuple):
    rank: Rank
    #: Of messages of the exchange the newest, so the highest slot, goes first.
    order: int = 0


PINNED = Precedence(Rank.PINNED)
USER = Precedence(Rank.USER)
DUE = Precedence(Rank.DUE)
HISTORY = Precedence(Rank.HISTORY)
#: After every message of the exchange, before all else.
SPOKEN = Precedence(Rank.MESSAGE, 1)


def precedence(
    state: ThreadState, rules: Mapping[str, str] | None = None
) -> dict[str, Precedence]:
    """Return the precedence of each mapped page. Linear in the frames.

    `rules` are those that pin, if they are at hand.
    """
    rules = pins.pinned(state) if rules is None else rules
    found = {
        frame.page_id: _frame_precedence(frame, state, rules.get(frame.page_id))
        for frame in values(state.paging.frames)
    }
    head = groups.newest(state.paging, state.slot_count)
    if head is not None and found[head.page_id].rank == Rank.MESSAGE:
        # As the next of its results: none of them can stand without it.
        found[head.page_id] = _next(state)
    return found


def _next(state: ThreadState) -> Precedence:
    """Of a message that is appended to this state."""
    return Precedence(Rank.MESSAGE, -state.slot_count)


def _frame_precedence(frame: Frame, state: ThreadState, rule: str | None) -> Precedence:
    paging, slot = state.paging, frame.entry.slot
    begins = paging.exchange(state.slot_count)
    if rule in ("explicit", "system"):
        return PINNED
    if slot is not None and paging.last_user and slot == paging.last_user.slot:
        return USER
    recent = slot is not None and begins is not None and slot >= begins
    # Of the exchange, memory may bring what nobody fetched: what never left.
    fetched = frame.recalled and not (recent and frame.page_id not in paging.history)
    if fetched and (rank := _fetched(frame, state)):
        return Precedence(rank)
    if recent:
        return Precedence(Rank.MESSAGE, -(slot or 0))
    return HISTORY


def _fetched(frame: Frame, state: ThreadState) -> Rank | None:
    """Whether it was fetched for what the model is at; before any turn there is none.

    A thread without messages of a user begins every turn anew.
    """
    paging = state.paging
    past = paging.history.get(frame.page_id)
    if not state.turn_count:
        return None
    if past is not None and past.faulted_turn == state.turn_count:
        return Rank.DUE
    user = paging.last_user
    return Rank.FETCHED if user and frame.mapped_seq > user.seq else None


def room(state: ThreadState, page_id: str, own: Precedence) -> int:
    """Return the tokens for a page of this precedence, once all below it has left."""
    frames = state.paging.frames
    above = sum(
        frames[name].tokens
        for name, each in precedence(state).items()
        if name != page_id and each <= own
    )
    return state.paging.settings.usable - above


def list_kept_pages(
    state: ThreadState, rules: Mapping[str, str] | None = None
) -> set[str]:
    """Return pages, besides the pinned, that no run evicts: they are due next.

    `rules` are those that pin, if they are at hand.
    """
    return {
        name
        for name, each in precedence(state, rules).items()
        if Rank.PINNED < each.rank <= Rank.FETCHED or each == _next(state)
    }


def below(state: ThreadState, own: Precedence) -> list[str]:
    """Return pages that may leave for one of this precedence, last in rank first.

    After all others, uncovered messages of an observed thread.
    """
    found, frames, last = precedence(state), state.paging.frames, uncovered(state)
    names = [name for name, each in found.items() if each > own]
    return sorted(
        names,
        key=lambda name: (name in last, _last(found[name]), frames[name].place),
    )


def uncovered(state: ThreadState) -> set[str]:
    """Return the mapped messages that nothing would stand for; none unless observed."""
    if not state.paging.settings.observe:
        return set()
    ranges = state.observing.uncovered(state.slot_count)
    return {
        frame.page_id
        for frame in values(state.paging.frames)
        if (slot := frame.entry.slot) is not None
        and any(begin <= slot < end for begin, end in ranges)
    }


def instructing(state: ThreadState) -> set[str]:
    """Return the mapped pages that were pinned by a command, and the system prompt."""
    rules = pins.pinned(state)
    return {name for name, rule in rules.items() if rule in ("explicit", "system")}


def _last(each: Precedence) -> tuple[int, int]:
    return -each.rank, -each.order
