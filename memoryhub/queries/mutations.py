"""Mutations: what happened to pages, as the journal has it. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Q, QuerySet

from memoryhub.kernel.events import SlotAppended
from memoryhub.kernel.page_events import (
    PageCreated,
    PageEvicted,
    PageFaulted,
    PageLowered,
    PageUpdated,
)
from memoryhub.kernel.pages import slot_page_id
from memoryhub.kernel.state import Segment
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.cursors import Batch, Listing

#: By event type, what it does to a page.
KINDS = {
    SlotAppended.event_type: "create",
    PageCreated.event_type: "create",
    PageUpdated.event_type: "update",
    PageFaulted.event_type: "fault_in",
    PageEvicted.event_type: "evict",
    PageLowered.event_type: "compress",
}
#: Rows looked at in one statement.
CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationFilter:
    """Which mutations; what is None is not asked for. Joined by AND."""

    type: str | None = None
    by: str | None = None
    page_id: str | None = None
    turn: int | None = None

    def plain(self) -> dict[str, Any]:
        """JSON values that tell this filter from any other."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One step in the life of a page."""

    #: Whose journal has it: the thread's, or an ancestor's.
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


def list_mutations(
    thread: Thread,
    *,
    where: MutationFilter | None = None,
    at_seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Batch[Mutation]:
    """What changed pages of the thread itself, oldest first, in batches.

    One query for each 500 events that the filter can't be asked of the database, and
    one with `turn`. Raises BadCursorError when `after` is not of this very list.
    """
    where = where or MutationFilter()
    head = thread.head_seq if at_seq is None else at_seq
    filters = [thread.id, where.plain(), at_seq]
    listing = Listing(name="mutations", project=thread.project_id, filters=filters)
    seq = 0 if after is None else listing.open(after)[0]
    rows = _rows(thread, where).filter(seq__lte=head)
    return _batch(_matching(rows, where, after=seq), listing, limit)


def list_history(
    thread: Thread,
    lineage: Sequence[Segment],
    page_id: str,
    *,
    after: str | None = None,
    limit: int = 50,
) -> Batch[Mutation]:
    """All that happened to a page, oldest first; `lineage` ends with the thread itself.

    One query a thread, two for a message. Raises BadCursorError.
    """
    filters = [thread.id, page_id, lineage[-1].up_to_seq]
    listing = Listing(name="page_history", project=thread.project_id, filters=filters)
    began, seen = (0, 0) if after is None else listing.open(after)
    found: list[tuple[int, Mutation]] = []
    for n, part in enumerate(lineage[began:], start=began):
        since = seen if n == began else 0
        rows = _of_page(part, page_id).filter(seq__gt=since, seq__lte=part.up_to_seq)
        ordered = rows.defer("payload").order_by("seq")[: limit + 1 - len(found)]
        found += [(n, _mutation(row)) for row in ordered]
    batch = found[:limit]
    last = [batch[-1][0], batch[-1][1].seq] if len(found) > limit else None
    return Batch(
        items=tuple(each for _, each in batch),
        next=listing.seal(last) if last else None,
    )


def _of_page(part: Segment, page_id: str) -> QuerySet[Event]:
    about = Q(page=page_id)
    kind, _, digits = page_id.partition("-")
    if kind == "slot" and digits.isdecimal() and len(digits) <= 18:
        slots = Slot.objects.filter(thread_id=part.thread, index=int(digits))
        about |= Q(seq__in=slots.values("seq"), type=SlotAppended.event_type)
    return Event.objects.filter(about, thread_id=part.thread)


def _rows(thread: Thread, where: MutationFilter) -> QuerySet[Event]:
    """Rows that hold all that match, and maybe more."""
    kinds = [kind for kind, word in KINDS.items() if where.type in (None, word)]
    rows = Event.objects.filter(thread_id=thread.id, type__in=kinds)
    if where.page_id is not None:
        own = Segment(thread=thread.id, first=0, end=0, up_to_seq=thread.head_seq)
        rows = _of_page(own, where.page_id).filter(type__in=kinds)
    if where.turn is not None:
        first, last = _span(thread, where.turn)
        rows = rows.filter(seq__gte=first, seq__lte=last)
    return rows.defer("payload")


def _span(thread: Thread, turn: int) -> tuple[int, int]:
    """The first and the last seq of a turn; an empty span for one that is not there."""
    turns = Turn.objects.filter(thread_id=thread.id, n__in=(turn, turn + 1))
    seqs = dict(turns.values_list("n", "seq"))
    first = seqs.get(turn, thread.head_seq + 1) if turn else 1
    return first, seqs.get(turn + 1, thread.head_seq + 1) - 1


def _matching(
    rows: QuerySet[Event], where: MutationFilter, *, after: int
) -> Iterator[Mutation]:
    while chunk := list(rows.filter(seq__gt=after).order_by("seq")[:CHUNK]):
        after = chunk[-1].seq
        for row in chunk:
            mutation = _mutation(row)
            if where.by in (None, mutation.by):
                yield mutation


def _batch(found: Iterator[Mutation], listing: Listing, limit: int) -> Batch[Mutation]:
    items: list[Mutation] = []
    for mutation in found:
        if len(items) == limit:
            return Batch(items=tuple(items), next=listing.seal([items[-1].seq]))
        items.append(mutation)
    return Batch(items=tuple(items), next=None)


def _mutation(row: Event) -> Mutation:
    body = orjson.loads(row.body)
    slot = body.get("index") if row.type == SlotAppended.event_type else None
    return Mutation(
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
