"""Events of a thread's journal, in order. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from django.db.models import Q
from django.db.models.functions import Length

from memoryhub.errors import SeqUnknownError
from memoryhub.journal import texts
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, count_fitting

Order = Literal["asc", "desc"]
#: The thread whose journal has the event, and the event's seq there.
EventAddress = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEventLine:
    """An event in a list or on its own page."""

    seq: int
    at: datetime
    type: str
    actor: str
    body: Mapping[str, Any]
    #: Whether content was sealed with the event, erased or not.
    sealed: bool
    erased: bool
    #: The opened content; None when erased, never present or not requested.
    payload: Mapping[str, Any] | None
    #: Hex of the hash chain at this event.
    chain: str


def list_events(
    thread: Thread,
    *,
    after: int = 0,
    up_to: int | None = None,
    limit: int = 50,
    content: bool = True,
    order: Order = "asc",
) -> tuple[ThreadEventLine, ...]:
    """List events with after < seq <= up_to, in the order of seqs or reversed.

    `thread` comes with its subject. One query, whatever the limit.
    """
    rows = Event.objects.filter(thread_id=thread.id, seq__gt=after)
    if up_to is not None:
        rows = rows.filter(seq__lte=up_to)
    if not content:
        rows = rows.defer("payload")
    ordered = rows.order_by("seq" if order == "asc" else "-seq")
    return tuple(build_line(thread, row, content=content) for row in ordered[:limit])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPart:
    """A batch of events, and whether more events follow."""

    items: tuple[ThreadEventLine, ...]
    more: bool


def list_part(
    thread: Thread,
    *,
    after: int = 0,
    up_to: int | None = None,
    limit: int,
    content: bool = True,
    max_bytes: int = PART_BYTES,
) -> EventPart:
    """List events with after < seq <= up_to, oldest first, up to one response's size.

    `thread` comes with its subject. A part has up to `limit` events, or about
    `max_bytes` of content but at least one event; events beyond are not read. Two
    queries.
    """
    rows = Event.objects.filter(thread_id=thread.id, seq__gt=after)
    if up_to is not None:
        rows = rows.filter(seq__lte=up_to)
    weighed = rows.order_by("seq").values_list("seq", Length("payload"), "body")
    found = list(weighed[: limit + 1])
    sizes = (_count_bytes(*row[1:]) if content else 0 for row in found[:limit])
    count = count_fitting(sizes, max_bytes=max_bytes)
    if not count:
        return EventPart(items=(), more=False)
    last = found[count - 1][0]
    items = list_events(thread, after=after, up_to=last, limit=count, content=content)
    return EventPart(items=items, more=len(found) > count)


def _count_bytes(sealed: int | None, body: str) -> int:
    """Return the bytes of an event's content, from its body if sealing packed it."""
    size: int = orjson.loads(body).get("bytes", 0)
    return max(size, sealed or 0)


def get_rows_at(
    places: Iterable[EventAddress], *, content: bool
) -> dict[EventAddress, Event]:
    """Return the rows of these events, in any journals.

    At most one query.
    """
    by_thread: dict[UUID, list[int]] = {}
    for home, seq in places:
        by_thread.setdefault(home, []).append(seq)
    if not by_thread:
        return {}
    named = Q()
    for home, seqs in by_thread.items():
        named |= Q(thread_id=home, seq__in=seqs)
    rows = Event.objects.filter(named).defer("chain", "payload_digest")
    if not content:
        rows = rows.defer("chain", "payload_digest", "payload")
    return {(row.thread_id, row.seq): row for row in rows}


def get_event(thread: Thread, seq: int, *, content: bool = True) -> ThreadEventLine:
    """Return one event. One query. Raises SeqUnknownError."""
    row = Event.objects.filter(thread_id=thread.id, seq=seq).first()
    if row is None:
        raise SeqUnknownError
    return build_line(thread, row, content=content)


def list_at(thread: Thread, seqs: Iterable[int]) -> tuple[ThreadEventLine, ...]:
    """List the events with these seqs, oldest first, with content. One query."""
    rows = Event.objects.filter(thread_id=thread.id, seq__in=[*seqs]).order_by("seq")
    return tuple(build_line(thread, row, content=True) for row in rows)


def build_line(thread: Thread, row: Event, *, content: bool) -> ThreadEventLine:
    """Build an event's line from its row; content is opened only if requested.

    No query.
    """
    return ThreadEventLine(
        seq=row.seq,
        at=row.at,
        type=row.type,
        actor=row.actor,
        body=orjson.loads(row.body),
        sealed=row.payload_digest is not None,
        erased=row.erased_by is not None,
        payload=texts.open_payload(thread.subject, thread.project_id, row)
        if content
        else None,
        chain=bytes(row.chain).hex(),
    )
