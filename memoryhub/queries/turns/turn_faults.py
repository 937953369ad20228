"""Faults of a turn: what its model fetched back, and what it was refused.

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
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import replay

#: Events after a turn began that are looked through, and faults that are told.
EVENTS, SHOWN = 2_000, 50
_TYPES = (PageFaulted.event_type, FaultRefused.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, served or refused."""

    seq: int
    at: datetime
    type: str
    #: Without the id that was asked for, when there never was such a page.
    body: Mapping[str, Any]

    @property
    def refused(self) -> bool:
        return self.type == FaultRefused.event_type


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFaults:
    """Oldest first, as far as was looked."""

    faults: tuple[Fault, ...]
    #: The last event looked at, if the turn has more than that.
    looked_to: int | None
    more: bool


def get_faults(
    thread: Thread, n: int, *, first: int | None = None
) -> TurnFaults | None:
    """Return the faults from the beginning of turn `first` to the end of turn `n`.

    Without `first` those of turn `n` alone. Two queries. None for a turn that an
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
    # What an ancestor began of the exchange is told there.
    begin = max(began.get(first, 0), began[n] - EVENTS)
    last = min(end - 1, began[n] + EVENTS)
    rows = Event.objects.filter(
        thread_id=thread.id, seq__gt=begin, seq__lte=last, type__in=_TYPES
    )
    found = rows.defer("payload").order_by("seq")[: SHOWN + 1]
    listed = tuple(
        Fault(seq=row.seq, at=row.at, type=row.type, body=orjson.loads(row.body))
        for row in found
    )
    return TurnFaults(
        faults=listed[:SHOWN],
        looked_to=last if last < end - 1 else None,
        more=len(listed) > SHOWN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What of a page there was room for when it was refused."""

    #: Tokens of what was asked for, and those that were left.
    tokens: int
    room: int
    #: The most faithful level that would have fitted; None when none would.
    level: int | None
    level_tokens: int | None


def get_fitting(thread: Thread, fault: Fault) -> Fitting | None:
    """Return what would have fitted when a fault was refused for want of room.

    None for other refusals, and for a page that is gone. Reads the state before it: at
    most three queries, and a few for a page at home.
    """
    page_id, refusal = fault.body.get("page_id"), fault.body["refusal"]
    if page_id is None or refusal not in _FOR_WANT:
        return None
    state = replay.state_at(thread, fault.seq - 1).state
    try:
        entry = pages.find_entry(state, page_id)
    except Refusal:
        return None
    room, costs = _FOR_WANT[refusal](state, entry)
    asked_for = entry.at_most(fault.body["level"])
    level = next((n for n in sorted(costs) if n > asked_for and costs[n] <= room), None)
    return Fitting(
        tokens=costs[asked_for],
        room=max(0, room),
        level=level,
        level_tokens=None if level is None else costs[level],
    )


def _within_set(state: ThreadState, entry: Entry) -> tuple[int, dict[int, int]]:
    """The tokens of the next request that were left for the page, and its levels'."""
    costs = {n: faults.weigh(state, entry, n) for n in _levels(entry)}
    return faults.deliverable(state, entry.page_id), costs


def _within_share(state: ThreadState, entry: Entry) -> tuple[int, dict[int, int]]:
    """The tokens that the exchange might still fetch, and those of the levels."""
    paging = state.paging
    left = paging.settings.max_fault_tokens_per_turn - paging.spent.tokens
    return left, {n: entry.at(n).tokens for n in _levels(entry)}


def _levels(entry: Entry) -> list[int]:
    return [n for n, level in enumerate(entry.levels) if level is not None]


_FOR_WANT: dict[str, Callable[[ThreadState, Entry], tuple[int, dict[int, int]]]] = {
    "no_room": _within_set,
    "fault_tokens": _within_share,
}
