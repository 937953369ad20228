"""Mutations: changes of pages, as recorded in the journal. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Q, QuerySet

from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCreated,
    PageEvicted,
    PageFaulted,
    PageLowered,
    PagesEvicted,
    PageUpdated,
)
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.state import LineageSegment
from memoryhub.models.events import Event
from memoryhub.models.pages import EvictedPage
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.threads.evicted_pages import split_evictions
from memoryhub.queries.threads.forks import get_segments

#: Kind of mutation, by event type.
KINDS = {
    SlotAppended.event_type: "create",
    PageCreated.event_type: "create",
    PageUpdated.event_type: "update",
    PageFaulted.event_type: "fault_in",
    PageEvicted.event_type: "evict",
    PagesEvicted.event_type: "evict",
    PageLowered.event_type: "compress",
}
#: Number of rows read in one statement.
CHUNK = 500
#: A number greater than the count of any event's steps.
ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationFilter:
    """Filter of mutations; None matches any value, and fields are joined by AND."""

    type: str | None = None
    by: str | None = None
    page_id: str | None = None
    turn: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that identify this filter."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One step in the life of a page."""

    #: The thread from which the mutation was listed.
    thread: UUID
    #: The thread whose journal has the event: `thread` or an ancestor.
    home: UUID
    seq: int
    at: datetime
    #: create, update, fault_in, evict or compress; None for any other event.
    type: str | None
    event: str
    actor: str
    page_id: str | None
    turn: int | None
    cause: str
    by: str
    body: Mapping[str, Any]

    @property
    def inherited(self) -> bool:
        return self.home != self.thread


def list_mutations(
    thread: Thread,
    *,
    where: MutationFilter | None = None,
    at_seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[Mutation]:
    """List mutations of pages, oldest first; in a fork, inherited ones first.

    One query per 500 events with `by`, which SQL cannot filter, one per ancestor, and
    one with `turn`. Raises BadCursorError when `after` is not a cursor of this very
    list.
    """
    where = where or MutationFilter()
    spans = _build_ranges(get_segments(thread, up_to=at_seq), where.turn)
    filters = [thread.id, where.to_dict(), at_seq]
    listing = ListScope(name="mutations", project=thread.project_id, filters=filters)
    walk = _MutationWalk(
        thread=thread,
        spans=spans,
        rows=partial(_filter_rows, where),
        by=where.by,
        page_id=where.page_id,
    )
    return walk.build_batch(listing, after=after, limit=limit)


def list_history(
    thread: Thread,
    lineage: Sequence[LineageSegment],
    page_id: str,
    *,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[Mutation]:
    """List all mutations of a page, oldest first; `lineage` ends with the thread.

    One query a thread, and one per 500 events. Raises BadCursorError.
    """
    filters = [thread.id, page_id, lineage[-1].up_to_seq]
    listing = ListScope(name="page_history", project=thread.project_id, filters=filters)
    rows = partial(_filter_page_rows, page_id)
    spans = _build_ranges(lineage, None)
    walk = _MutationWalk(thread=thread, spans=spans, rows=rows, page_id=page_id)
    return walk.build_batch(listing, after=after, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventRange:
    """Events first <= seq <= last of a thread."""

    home: UUID
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _MutationWalk:
    """A walk through the journals of a thread, oldest first."""

    thread: Thread
    spans: Sequence[_EventRange]
    #: From a thread's id, the rows with all matches and possibly more.
    rows: Callable[[UUID], QuerySet[Event]]
    by: str | None = None
    #: Yield only this page's step from events that concern several pages.
    page_id: str | None = None

    def build_batch(
        self, listing: ListScope, *, after: str | None, limit: int
    ) -> ListBatch[Mutation]:
        # Older cursors do not have the step's number within an event.
        seen = (0, 0, 0) if after is None else (*listing.open(after), ALL)[:3]
        found = list(islice(self._iter_mutations(seen, limit), limit + 1))
        batch, rest = found[:limit], found[limit:]
        items = tuple(mutation for _, mutation in batch)
        if not rest:
            return ListBatch(items=items, next=None)
        return ListBatch(items=items, next=listing.seal([*batch[-1][0]]))

    def _iter_mutations(
        self, seen: tuple[int, ...], limit: int
    ) -> Iterator[tuple[tuple[int, int, int], Mutation]]:
        """Yield mutations, each with its place: span number, seq, step number."""
        # If the rows are exactly the matches, read no more than needed.
        size = limit + 2 if self.by is None else CHUNK
        began = seen[0]
        for n, span in enumerate(self.spans[began:], start=began):
            within = self.rows(span.home).filter(seq__lte=span.last).defer("payload")
            # The last event before the cursor may have more steps.
            seq = max(span.first, seen[1] if n == began else 0) - 1
            while chunk := list(within.filter(seq__gt=seq).order_by("seq")[:size]):
                seq = chunk[-1].seq
                for row in chunk:
                    for k, mutation in enumerate(self._split_row(row), start=1):
                        if (n, row.seq, k) > seen and self.by in (None, mutation.by):
                            yield (n, row.seq, k), mutation
                if len(chunk) < size:
                    break

    def _split_row(self, row: Event) -> Iterator[Mutation]:
        for kind, body in split_evictions(row.type, orjson.loads(row.body)):
            if kind == row.type or self.page_id in (None, body["page_id"]):
                yield _build_mutation(self.thread, row, body)


def _filter_page_rows(page_id: str, home: UUID) -> QuerySet[Event]:
    about = Q(page=page_id)
    kind, _, digits = page_id.partition("-")
    if kind == "slot" and digits.isdecimal() and len(digits) <= 18:
        slots = Slot.objects.filter(thread_id=home, index=int(digits))
        about |= Q(seq__in=slots.values("seq"), type=SlotAppended.event_type)
    rows = EvictedPage.objects.filter(thread_id=home, page=page_id)
    about |= Q(seq__in=[*rows.values_list("seq", flat=True)])
    return Event.objects.filter(about, thread_id=home)


def _filter_rows(where: MutationFilter, home: UUID) -> QuerySet[Event]:
    """Return rows with all matches, and possibly more."""
    kinds = [kind for kind, word in KINDS.items() if where.type in (None, word)]
    rows: QuerySet[Event] = Event.objects.filter(thread_id=home)
    if where.page_id is not None:
        rows = _filter_page_rows(where.page_id, home)
    return rows.filter(type__in=kinds)


def _build_ranges(
    parts: Sequence[LineageSegment], turn: int | None
) -> list[_EventRange]:
    """Build the range of each journal; of one turn, from its begin to the next turn's.

    One query with a turn. A fork continues the turn in which it was forked.
    """
    if turn is None:
        return [_EventRange(home=p.thread, first=1, last=p.up_to_seq) for p in parts]
    rows = Turn.objects.filter(
        thread_id__in=[part.thread for part in parts], n__in=(turn, turn + 1)
    )
    seqs = {(row.thread_id, row.n): row.seq for row in rows}
    spans: list[_EventRange] = []
    going = turn == 0
    for part in parts:
        beyond = part.up_to_seq + 1
        begun = min(seqs.get((part.thread, turn), beyond), beyond)
        over = min(seqs.get((part.thread, turn + 1), beyond), beyond)
        spans.append(
            _EventRange(home=part.thread, first=1 if going else begun, last=over - 1)
        )
        going = (going or begun < beyond) and over == beyond
    return spans


def _build_mutation(thread: Thread, row: Event, body: Mapping[str, Any]) -> Mutation:
    slot = body.get("index") if row.type == SlotAppended.event_type else None
    return Mutation(
        thread=thread.id,
        home=row.thread_id,
        seq=row.seq,
        at=row.at,
        type=KINDS.get(row.type),
        event=row.type,
        actor=row.actor,
        page_id=body.get("page_id") if slot is None else build_slot_page_id(slot),
        turn=body.get("turn"),
        # An append has neither field: agents append of their own accord.
        cause=body.get("cause", "append" if slot is not None else "command"),
        by=body.get("by", "tool"),
        body=body,
    )
