"""Traces: how many tokens a working set held after each event. Never writes.

Read from the bodies of events, without a state: each says what its page weighs. A
thread is traced once in a process, and then from where that ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from memoryhub.kernel.paging import weights
from memoryhub.kernel.state import page_events
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.kernel.state.paging import values
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.vault.registry.lru import Lru

Body = Mapping[str, Any]
#: Stretches of a trace at most; each is a power of two of events long.
BINS = 256
#: Threads whose traces a process keeps.
KEPT = 200


@dataclass(slots=True, kw_only=True)
class Trace:
    """The working set after each stretch of a thread's events, and what moved there."""

    seq: int = 0
    used: int = 0
    #: Events of a stretch.
    width: int = 1
    #: Tokens after the last event of each stretch, the one under way included.
    ends: list[int] = field(default_factory=list)
    #: Numbers of the stretches in which pages left, were fetched, were refused.
    left: set[int] = field(default_factory=set)
    fetched: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    #: By page of the working set, the tokens that it holds.
    held: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Trace:
        """Return one that can go on while others look at this one."""
        return Trace(
            seq=self.seq,
            used=self.used,
            width=self.width,
            ends=[*self.ends],
            left={*self.left},
            fetched={*self.fetched},
            refused={*self.refused},
            held={**self.held},
        )

    def begin(self, seq: int) -> int:
        """Come to an event; return the number of its stretch."""
        while (seq - 1) // self.width >= BINS:
            self._widen()
        place = (seq - 1) // self.width
        self.ends += [self.used] * (place - len(self.ends))
        self.seq = seq
        return place

    def put(self, place: int) -> None:
        """Note what is held after an event of this stretch."""
        self.ends[place:] = [self.used]

    def weigh(self, page_id: str, tokens: int) -> None:
        """Let a page hold so many tokens; 0 once it has left."""
        self.used += tokens - self.held.pop(page_id, 0)
        if tokens:
            self.held[page_id] = tokens

    def _widen(self) -> None:
        self.width *= 2
        odd = self.ends[-1:] if len(self.ends) % 2 else []
        self.ends = [*self.ends[1::2], *odd]
        self.left = {each // 2 for each in self.left}
        self.fetched = {each // 2 for each in self.fetched}
        self.refused = {each // 2 for each in self.refused}


class Traces(Lru[UUID, tuple[int, Trace]]):
    """Threads' traces. Of no use once the subject's epoch has moved."""

    def find(self, thread: Thread) -> Trace | None:
        epoch, trace = self.get(thread.id) or (0, None)
        if trace is None or epoch != thread.subject.epoch:
            return None
        return trace if trace.seq <= thread.head_seq else None

    def keep(self, thread: Thread, trace: Trace) -> None:
        self.put(thread.id, (thread.subject.epoch, trace))


#: The process's traces of threads that were looked at.
traces = Traces(KEPT, name="threads' working sets over time")


def get_trace(thread: Thread) -> Trace:
    """Return the trace of a thread up to its head. `thread` comes with its subject.

    One query for the events since the last one, none if there are none; in a fork
    those of its origin, the first time.
    """
    kept = traces.find(thread)
    if kept is not None and kept.seq == thread.head_seq:
        return kept
    trace = kept.copy() if kept else _origin(thread)
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=trace.seq,
        seq__lte=thread.head_seq,
        type__in=_MOVES,
    )
    listed = rows.order_by("seq").values_list("seq", "type", "body")
    _follow(trace, listed.iterator())
    if thread.head_seq:
        trace.put(trace.begin(thread.head_seq))
    traces.keep(thread, trace)
    return trace


def _origin(thread: Thread) -> Trace:
    if thread.parent_id is None:
        return Trace()
    paging = replay.state_at(thread, 0).state.paging
    held = {frame.page_id: frame.tokens for frame in values(paging.frames)}
    return Trace(used=paging.used, held=held)


def _follow(trace: Trace, rows: Iterable[tuple[int, str, str]]) -> None:
    for seq, kind, text in rows:
        place = trace.begin(seq)
        _MOVES[kind](trace, orjson.loads(text), place)
        trace.put(place)


def _appended(trace: Trace, body: Body, place: int) -> None:
    page = body.get("page")
    if page is not None and page["mapped"]:
        trace.weigh(slot_page_id(body["index"]), page["cost"])


def _created(trace: Trace, body: Body, place: int) -> None:
    if body["mapped"]:
        page_id = body["page_id"]
        framing = weights.fetching(page_id)
        trace.weigh(page_id, body["cost"] + framing)


def _updated(trace: Trace, body: Body, place: int) -> None:
    page_id = body["page_id"]
    if page_id in trace.held and body.get("cost") is not None:
        framing = weights.fetching(page_id)
        trace.weigh(page_id, body["cost"] + framing)


def _weighed(trace: Trace, body: Body, place: int) -> None:
    trace.weigh(body["page_id"], body["tokens"])


def _lowered(trace: Trace, body: Body, place: int) -> None:
    _weighed(trace, body, place)
    trace.left.add(place)


def _faulted(trace: Trace, body: Body, place: int) -> None:
    trace.fetched.add(place)
    if body["promoted"]:
        trace.weigh(body["page_id"], body["cost"])


def _refused(trace: Trace, body: Body, place: int) -> None:
    trace.refused.add(place)


def _evicted(trace: Trace, body: Body, place: int) -> None:
    if body["tier_before"] == "L0":
        trace.weigh(body["page_id"], 0)
        trace.left.add(place)


def _remove_pages(trace: Trace, body: Body, place: int) -> None:
    for page_id in body["page_ids"]:
        trace.weigh(page_id, 0)
    trace.left.add(place)


def _deleted(trace: Trace, body: Body, place: int) -> None:
    trace.weigh(body["page_id"], 0)


_MOVES: dict[str, Callable[[Trace, Body, int], None]] = {
    SlotAppended.event_type: _appended,
    page_events.PageCreated.event_type: _created,
    page_events.PageUpdated.event_type: _updated,
    page_events.PageMapped.event_type: _weighed,
    page_events.PageFaulted.event_type: _faulted,
    page_events.FaultRefused.event_type: _refused,
    page_events.PageLowered.event_type: _lowered,
    page_events.PageEvicted.event_type: _evicted,
    page_events.PagesEvicted.event_type: _remove_pages,
    page_events.PageDeleted.event_type: _deleted,
}
