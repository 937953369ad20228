"""Faults of a turn: what its model fetched back, and what it was refused.

Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from memoryhub.kernel.state.page_events import FaultRefused, PageFaulted
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread

#: Events after a turn began that are looked through, and faults that are told.
EVENTS, TOLD = 2_000, 50
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


def get_faults(thread: Thread, n: int) -> TurnFaults | None:
    """Faults between the beginning of a turn and that of the next. Two queries.

    None for a turn that an ancestor began.
    """
    began = dict(
        Turn.objects.filter(thread_id=thread.id, n__in=(n, n + 1)).values_list(
            "n", "seq"
        )
    )
    if n not in began:
        return None
    end = began.get(n + 1, thread.head_seq + 1)
    last = min(end - 1, began[n] + EVENTS)
    rows = Event.objects.filter(
        thread_id=thread.id, seq__gt=began[n], seq__lte=last, type__in=_TYPES
    )
    found = rows.defer("payload").order_by("seq")[: TOLD + 1]
    faults = tuple(
        Fault(seq=row.seq, at=row.at, type=row.type, body=orjson.loads(row.body))
        for row in found
    )
    return TurnFaults(
        faults=faults[:TOLD],
        looked_to=last if last < end - 1 else None,
        more=len(faults) > TOLD,
    )
