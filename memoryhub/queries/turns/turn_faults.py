"""Faults of a turn: pages that its model fetched back, and refused fetches.

Never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from memoryhub.errors import Refusal
from memoryhub.kernel.paging import faults
from memoryhub.kernel.state.page_events import FaultRefused, PageFaulted
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import replay

#: Maximum number of events searched after a turn began, and of faults returned.
EVENTS, SHOWN = 2_000, 50
_TYPES = (PageFaulted.event_type, FaultRefused.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFault:
    """One page fault, served or refused."""

    seq: int
    at: datetime
    type: str
    #: Without the requested id, when no such page ever existed.
    body: Mapping[str, Any]

    @property
    def refused(self) -> bool:
        return self.type == FaultRefused.event_type


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFaults:
    """Faults of a turn, oldest first, within the searched events."""

    faults: tuple[TurnFault, ...]
    #: The last event searched, if the turn has later events.
    looked_to: int | None
    more: bool


def get_faults(
    thread: Thread, n: int, *, first: int | None = None
) -> TurnFaults | None:
    """Return the faults from the beginning of turn `first` to the end of turn `n`.

    Without `first`, those of turn `n` alone. Two queries. None for a turn that an
    ancestor began.
    """
    first = n if first is None else first
    began = dict(
        Turn.objects.filter(thread_id=thread.id, n__in=(first, n, n + 1)).values_list(
            "n", "seq"
        )
    )
    if n not in began:
        return None
    end = began.get(n + 1, thread.head_seq + 1)
    # Faults of the exchange in an ancestor's journal are shown with the ancestor.
    begin = max(began.get(first, 0), began[n] - EVENTS)
    last = min(end - 1, began[n] + EVENTS)
    rows = Event.objects.filter(
        thread_id=thread.id, seq__gt=begin, seq__lte=last, type__in=_TYPES
    )
    found = rows.defer("payload").order_by("seq")[: SHOWN + 1]
    listed = tuple(
        TurnFault(seq=row.seq, at=row.at, type=row.type, body=orjson.loads(row.body))
        for row in found
    )
    return TurnFaults(
        faults=listed[:SHOWN],
        looked_to=last if last < end - 1 else None,
        more=len(listed) > SHOWN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWhenRefused:
    """Largest level of a page that would have fitted when its fetch was refused."""

    #: Tokens of the requested level, and tokens that were left.
    tokens: int
    room: int
    #: The most faithful level that would have fitted; None when no level would.
    level: int | None
    level_tokens: int | None


def get_room_when_refused(thread: Thread, fault: TurnFault) -> RoomWhenRefused | None:
    """Return the room and the fitting level when a fetch was refused for lack of room.

    None for other refusals, and for a page deleted since. Reads the state before the
    fault: at most three queries, and a few for a page outside the working set.
    """
    page_id, refusal = fault.body.get("page_id"), fault.body["refusal"]
    if page_id is None or refusal not in _ROOM_BY_REFUSAL:
        return None
    state = replay.load_state_at(thread, fault.seq - 1).state
    try:
        entry = pages.find_entry(state, page_id)
    except Refusal:
        return None
    room, costs = _ROOM_BY_REFUSAL[refusal](state, entry)
    asked_for = entry.pick_level(fault.body["level"])
    level = next((n for n in sorted(costs) if n > asked_for and costs[n] <= room), None)
    return RoomWhenRefused(
        tokens=costs[asked_for],
        room=max(0, room),
        level=level,
        level_tokens=None if level is None else costs[level],
    )


def _weigh_in_set(state: ThreadState, entry: PageEntry) -> tuple[int, dict[int, int]]:
    """Return the tokens left in the next request, and the weights of the levels."""
    costs = {n: faults.weigh(state, entry, n) for n in _list_levels(entry)}
    return faults.compute_deliverable(state, entry.page_id), costs


def _weigh_in_share(state: ThreadState, entry: PageEntry) -> tuple[int, dict[int, int]]:
    """Return the tokens that the exchange could still fetch, and the levels' tokens."""
    paging = state.paging
    left = paging.settings.max_fault_tokens_per_turn - paging.spent.tokens
    return left, {n: entry.require_level(n).tokens for n in _list_levels(entry)}


def _list_levels(entry: PageEntry) -> list[int]:
    return [n for n, level in enumerate(entry.levels) if level is not None]


_ROOM_BY_REFUSAL: dict[
    str, Callable[[ThreadState, PageEntry], tuple[int, dict[int, int]]]
] = {
    "no_room": _weigh_in_set,
    "fault_tokens": _weigh_in_share,
}
