"""Traces: tokens held by a working set after each event. Never writes.

A trace reads the tokens of pages from event bodies, without a state. A process traces a
thread once, and later only the events after the trace's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.state import page_events
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.paging import list_values
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.vault.registry.lru import Lru

Body = Mapping[str, Any]
#: Maximum number of bins of a trace; a bin's length in events is a power of two.
BINS = 256
#: Number of threads whose traces a process caches.
KEPT = 200


@dataclass(slots=True, kw_only=True)
class WorkingSetTrace:
    """Working set tokens after each bin of a thread's events, and the moves in it."""

    seq: int = 0
    used: int = 0
    #: Number of events of a bin.
    width: int = 1
    #: Tokens after the last event of each bin, the unfinished bin included.
    ends: list[int] = field(default_factory=list)
    #: Numbers of the bins in which pages were evicted, fetched, refused.
    left: set[int] = field(default_factory=set)
    fetched: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    #: Tokens by page of the working set.
    held: dict[str, int] = field(default_factory=dict)

    def copy(self) -> WorkingSetTrace:
        """Return a copy that can advance while others read this trace."""
        return WorkingSetTrace(
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
        """Advance to an event; return the number of its bin."""
        while (seq - 1) // self.width >= BINS:
            self._double_width()
        place = (seq - 1) // self.width
        self.ends += [self.used] * (place - len(self.ends))
        self.seq = seq
        return place

    def put(self, place: int) -> None:
        """Record the tokens held after an event of this bin."""
        self.ends[place:] = [self.used]

    def weigh(self, page_id: str, tokens: int) -> None:
        """Set the tokens of a page; 0 after an eviction."""
        self.used += tokens - self.held.pop(page_id, 0)
        if tokens:
            self.held[page_id] = tokens

    def _double_width(self) -> None:
        self.width *= 2
        odd = self.ends[-1:] if len(self.ends) % 2 else []
        self.ends = [*self.ends[1::2], *odd]
        self.left = {each // 2 for each in self.left}
        self.fetched = {each // 2 for each in self.fetched}
        self.refused = {each // 2 for each in self.refused}


class Traces(Lru[UUID, tuple[int, WorkingSetTrace]]):
    """Cache of threads' traces, each valid for one epoch of the thread's subject."""

    def find(self, thread: Thread) -> WorkingSetTrace | None:
        epoch, trace = self.get(thread.id) or (0, None)
        if trace is None or epoch != thread.subject.epoch:
            return None
        return trace if trace.seq <= thread.head_seq else None

    def keep(self, thread: Thread, trace: WorkingSetTrace) -> None:
        self.put(thread.id, (thread.subject.epoch, trace))


#: Traces cached in this process.
traces = Traces(KEPT, name="threads' working sets over time")


def get_trace(thread: Thread) -> WorkingSetTrace:
    """Return the trace of a thread up to its head. `thread` comes with its subject.

    One query for the events since the cached trace, no query without new events. The
    first trace of a fork also queries its origin.
    """
    kept = traces.find(thread)
    if kept is not None and kept.seq == thread.head_seq:
        return kept
    trace = kept.copy() if kept else _build_origin(thread)
    rows = Event.objects.filter(
        thread_id=thread.id,
        seq__gt=trace.seq,
        seq__lte=thread.head_seq,
        type__in=_MOVES,
    )
    listed = rows.order_by("seq").values_list("seq", "type", "body")
    _trace_events(trace, listed.iterator())
    if thread.head_seq:
        trace.put(trace.begin(thread.head_seq))
    traces.keep(thread, trace)
    return trace


def _build_origin(thread: Thread) -> WorkingSetTrace:
    if thread.parent_id is None:
        return WorkingSetTrace()
    paging = replay.load_state_at(thread, 0).state.paging
    held = {frame.page_id: frame.tokens for frame in list_values(paging.frames)}
    return WorkingSetTrace(used=paging.used, held=held)


def _trace_events(trace: WorkingSetTrace, rows: Iterable[tuple[int, str, str]]) -> None:
    for seq, kind, text in rows:
        place = trace.begin(seq)
        _MOVES[kind](trace, orjson.loads(text), place)
        trace.put(place)


def _trace_slot_appended(trace: WorkingSetTrace, body: Body, place: int) -> None:
    page = body.get("page")
    if page is not None and page["mapped"]:
        trace.weigh(build_slot_page_id(body["index"]), page["cost"])


def _trace_page_created(trace: WorkingSetTrace, body: Body, place: int) -> None:
    if body["mapped"]:
        page_id = body["page_id"]
        framing = weights.weigh_call(page_id)
        trace.weigh(page_id, body["cost"] + framing)


def _trace_page_updated(trace: WorkingSetTrace, body: Body, place: int) -> None:
    page_id = body["page_id"]
    if page_id in trace.held and body.get("cost") is not None:
        framing = weights.weigh_call(page_id)
        trace.weigh(page_id, body["cost"] + framing)


def _trace_page_mapped(trace: WorkingSetTrace, body: Body, place: int) -> None:
    trace.weigh(body["page_id"], body["tokens"])


def _trace_page_lowered(trace: WorkingSetTrace, body: Body, place: int) -> None:
    _trace_page_mapped(trace, body, place)
    trace.left.add(place)


def _trace_page_faulted(trace: WorkingSetTrace, body: Body, place: int) -> None:
    trace.fetched.add(place)
    if body["promoted"]:
        trace.weigh(body["page_id"], body["cost"])


def _trace_fault_refused(trace: WorkingSetTrace, body: Body, place: int) -> None:
    trace.refused.add(place)


def _trace_page_evicted(trace: WorkingSetTrace, body: Body, place: int) -> None:
    if body["tier_before"] == "L0":
        trace.weigh(body["page_id"], 0)
        trace.left.add(place)


def _trace_pages_evicted(trace: WorkingSetTrace, body: Body, place: int) -> None:
    for page_id in body["page_ids"]:
        trace.weigh(page_id, 0)
    trace.left.add(place)


def _trace_page_deleted(trace: WorkingSetTrace, body: Body, place: int) -> None:
    trace.weigh(body["page_id"], 0)


_MOVES: dict[str, Callable[[WorkingSetTrace, Body, int], None]] = {
    SlotAppended.event_type: _trace_slot_appended,
    page_events.PageCreated.event_type: _trace_page_created,
    page_events.PageUpdated.event_type: _trace_page_updated,
    page_events.PageMapped.event_type: _trace_page_mapped,
    page_events.PageFaulted.event_type: _trace_page_faulted,
    page_events.FaultRefused.event_type: _trace_fault_refused,
    page_events.PageLowered.event_type: _trace_page_lowered,
    page_events.PageEvicted.event_type: _trace_page_evicted,
    page_events.PagesEvicted.event_type: _trace_pages_evicted,
    page_events.PageDeleted.event_type: _trace_page_deleted,
    page_events.SlotStruck.event_type: _trace_page_deleted,
}
