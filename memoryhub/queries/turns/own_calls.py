"""Recorded calls of an agent's own tools: those of a turn, and verdicts of guards.

Never writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from memoryhub.journal import texts
from memoryhub.kernel.state.tool_events import CallRecorded
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread

#: Most events searched after a turn began, calls returned, and bytes opened.
EVENTS, SHOWN, OPENED_BYTES = 2_000, 50, 4 * 1_048_576
#: Newest events in which verdicts are counted.
COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """A recorded call of one of the agent's own tools."""

    seq: int
    #: None if it was erased, or if the calls of the turn are too large to open.
    tool: str | None
    erased: bool
    body: Mapping[str, Any]

    @property
    def duration(self) -> timedelta | None:
        found = self.body.get("duration_ms")
        return None if found is None else timedelta(milliseconds=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCalls:
    """First calls of a turn, oldest first, and whether there are more."""

    calls: tuple[TurnCall, ...]
    more: bool


def list_calls(thread: Thread, n: int) -> TurnCalls | None:
    """List the recorded calls of turn `n`. None for a turn that an ancestor began.

    At most three queries. `thread` comes with its subject.
    """
    began = dict(
        Turn.objects.filter(thread_id=thread.id, n__in=(n, n + 1)).values_list(
            "n", "seq"
        )
    )
    if n not in began:
        return None
    last = min(began.get(n + 1, thread.head_seq + 1) - 1, began[n] + EVENTS)
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=began[n],
        seq__lte=last,
        type=CallRecorded.event_type,
    )
    found = [*rows.defer("payload").order_by("seq")[: SHOWN + 1]]
    shown = [(row, orjson.loads(row.body)) for row in found[:SHOWN]]
    wanted, left = list[int](), OPENED_BYTES
    for row, body in shown:
        left -= body["bytes"]
        if left >= 0 and row.erased_by is None:
            wanted.append(row.seq)
    opened = texts.open_contents(thread.subject, thread.project_id, thread.id, wanted)
    calls = tuple(
        TurnCall(
            seq=row.seq,
            tool=opened.get(row.seq, {}).get("tool"),
            erased=row.erased_by is not None,
            body=body,
        )
        for row, body in shown
    )
    return TurnCalls(calls=calls, more=len(found) > SHOWN)


def count_verdicts(thread: Thread, *, first: int, last: int) -> dict[str, int]:
    """Count recorded calls by the guard's verdict; `unchecked` counts the others.

    One query, over the newest 10,000 of these events.
    """
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gte=max(first, last - COUNTED + 1),
        seq__lte=last,
        type=CallRecorded.event_type,
    )
    bodies = rows.values_list("body", flat=True)
    return Counter(orjson.loads(e).get("verdict") or "unchecked" for e in bodies)
