"""Mutations: what happened to pages, as the journal has it. Never writes."""

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
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.kernel.state.state import Segment
from memoryhub.models.events import Event
from memoryhub.models.pages import EvictedPage
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.threads.evicted_pages import split_evictions
from memoryhub.queries.threads.forks import get_segments

#: By event type, what it does to a page.
KINDS = {
    SlotAppended.event_type: "create",
    PageCreated.event_type: "create",
    PageUpdated.event_type: "update",
    PageFaulted.event_type: "fault_in",
    PageEvicted.event_type: "evict",
    PagesEvicted.event_type: "evict",
    PageLowered.event_type: "compress",
}
#: Rows looked at in one statement.
CHUNK = 500
#: More steps than an event tells of.
ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationFilter:
    """Which mutations; what is None is not asked for. Joined by AND."""

    type: str | None = None
    by: str | None = None
    page_id: str | None = None
    turn: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return JSON values that identify this filter."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One step in the life of a page."""

    #: The thread it was read from.
    thread: UUID
    #: Whose journal has it: `thread`, or the ancestor it was inherited from.
    home: UUID
    seq: int
    at: datetime
    #: create, update, fault_in, evict or compress; None for a step of another kind.
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
) -> Batch[Mutation]:
    """List what changed pages, oldest first; of a fork, inherited steps first.

    One query for each 500 events that the filter can't be asked of the database, one
    for each ancestor, and one with `turn`. Raises BadCursorError when `after` is not of
    this very list.
    """
    where = where or MutationFilter()
    spans = _spans(get_segments(thread, up_to=at_seq), where.turn)
    filters = [thread.id, where.plain(), at_seq]
    listing = Listing(name="mutations", project=thread.project_id, filters=filters)
    walk = _Walk(
        thread=thread,
        spans=spans,
        rows=partial(_rows, where),
        by=where.by,
        page_id=where.page_id,
    )
    return walk.batch(listing, after=after, limit=limit)


def list_history(
    thread: Thread,
    lineage: Sequence[Segment],
    page_id: str,
    *,
    after: str | None = None,
    limit: int = 50,
) -> Batch[Mutation]:
    """List all that happened to a page, oldest first; `lineage` ends with the thread.

    One query a thread, and one for each 500 events. Raises BadCursorError.
    """
    filters = [thread.id, page_id, lineage[-1].up_to_seq]
    listing = Listing(name="page_history", project=thread.project_id, filters=filters)
    rows = partial(_of_page, page_id)
    spans = _spans(lineage, None)
    walk = _Walk(thread=thread, spans=spans, rows=rows, page_id=page_id)
    return walk.batch(listing, after=after, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Events first <= seq <= last of a thread."""

    home: UUID
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Through the journals that a thread is made of, oldest first."""

    thread: Thread
    spans: Sequence[_Span]
    #: By a thread's id, the rows that hold all that is looked for, and maybe more.
    rows: Callable[[UUID], QuerySet[Event]]
    by: str | None = None
    #: Of what one event tells of several pages, only of this one.
    page_id: str | None = None

    def batch(
        self, listing: Listing, *, after: str | None, limit: int
    ) -> Batch[Mutation]:
        # A cursor of before says nothing of steps that one event tells together.
        seen = (0, 0, 0) if after is None else (*listing.open(after), ALL)[:3]
        found = list(islice(self._found(seen, limit), limit + 1))
        batch, rest = found[:limit], found[limit:]
        items = tuple(mutation for _, mutation in batch)
        if not rest:
            return Batch(items=items, next=None)
        return Batch(items=items, next=listing.seal([*batch[-1][0]]))

    def _found(
        self, seen: tuple[int, ...], limit: int
    ) -> Iterator[tuple[tuple[int, int, int], Mutation]]:
        """With the place of each: which span, the event's seq, which step of those."""
        # Where the rows are all that is looked for, no more of them are read.
        size = limit + 2 if self.by is None else CHUNK
        began = seen[0]
        for n, span in enumerate(self.spans[began:], start=began):
            within = self.rows(span.home).filter(seq__lte=span.last).defer("payload")
            # The event that was seen last may have more to tell.
            seq = max(span.first, seen[1] if n == began else 0) - 1
            while chunk := list(within.filter(seq__gt=seq).order_by("seq")[:size]):
                seq = chunk[-1].seq
                for row in chunk:
                    for k, mutation in enumerate(self._steps(row), start=1):
                        if (n, row.seq, k) > seen and self.by in (None, mutation.by):
                            yield (n, row.seq, k), mutation
                if len(chunk) < size:
                    break

    def _steps(self, row: Event) -> Iterator[Mutation]:
        for kind, body in split_evictions(row.type, orjson.loads(row.body)):
            if kind == row.type or self.page_id in (None, body["page_id"]):
                yield _mutation(self.thread, row, body)


def _of_page(page_id: str, home: UUID) -> QuerySet[Event]:
    about = Q(page=page_id)
    kind, _, digits = page_id.partition("-")
    if kind == "slot" and digits.isdecimal() and len(digits) <= 18:
        slots = Slot.objects.filter(thread_id=home, index=int(digits))
        about |= Q(seq__in=slots.values("seq"), type=SlotAppended.event_type)
    rows = EvictedPage.objects.filter(thread_id=home, page=page_id)
    about |= Q(seq__in=[*rows.values_list("seq", flat=True)])
    return Event.objects.filter(about, thread_id=home)


def _rows(where: MutationFilter, home: UUID) -> QuerySet[Event]:
    """Rows that hold all that match, and maybe more."""
    kinds = [kind for kind, word in KINDS.items() if where.type in (None, word)]
    rows: QuerySet[Event] = Event.objects.filter(thread_id=home)
    if where.page_id is not None:
        rows = _of_page(where.page_id, home)
    return rows.filter(type__in=kinds)


def _spans(parts: Sequence[Segment], turn: int | None) -> list[_Span]:
    """What of each journal counts; of one turn, from its beginning to the next one's.

    With a turn one query. A fork goes on with the turn that it was forked in.
    """
    if turn is None:
        return [_Span(home=p.thread, first=1, last=p.up_to_seq) for p in parts]
    rows = Turn.objects.filter(
        thread_id__in=[part.thread for part in parts], n__in=(turn, turn + 1)
    )
    seqs = {(row.thread_id, row.n): row.seq for row in rows}
    spans: list[_Span] = []
    going = turn == 0
    for part in parts:
        beyond = part.up_to_seq + 1
        begun = min(seqs.get((part.thread, turn), beyond), beyond)
        over = min(seqs.get((part.thread, turn + 1), beyond), beyond)
        spans.append(
            _Span(home=part.thread, first=1 if going else begun, last=over - 1)
        )
        going = (going or begun < beyond) and over == beyond
    return spans


def _mutation(thread: Thread, row: Event, body: Mapping[str, Any]) -> Mutation:
    slot = body.get("index") if row.type == SlotAppended.event_type else None
    return Mutation(
        thread=thread.id,
        home=row.thread_id,
        seq=row.seq,
        at=row.at,
        type=KINDS.get(row.type),
        event=row.type,
        actor=row.actor,
        page_id=body.get("page_id") if slot is None else slot_page_id(slot),
        turn=body.get("turn"),
        # An append says neither: it is what agents do of themselves.
        cause=body.get("cause", "append" if slot is not None else "command"),
        by=body.get("by", "tool"),
        body=body,
    )
