"""Events: a thread's journal, read in order. Never writes."""

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
from memoryhub.journal.log import log
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, fitting

Order = Literal["asc", "desc"]
#: Whose journal an event is in, and its seq there.
EventAddress = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """An event as it is shown."""

    seq: int
    at: datetime
    type: str
    actor: str
    body: Mapping[str, Any]
    #: Whether content was sealed beside it, erased or not.
    sealed: bool
    erased: bool
    #: The opened content; None when erased, never there or not asked for.
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
) -> tuple[EventLine, ...]:
    """List events with after < seq <= up_to: the oldest of them first, or the newest.

    `thread` comes with its subject. One query, whatever the limit.
    """
    rows = Event.objects.filter(thread_id=thread.id, seq__gt=after)
    if up_to is not None:
        rows = rows.filter(seq__lte=up_to)
    if not content:
        rows = rows.defer("payload")
    ordered = rows.order_by("seq" if order == "asc" else "-seq")
    return tuple(line_of(thread, row, content=content) for row in ordered[:limit])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPart:
    """Some events of a journal, and whether there are more after them."""

    items: tuple[EventLine, ...]
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
    """List events with after < seq <= up_to, oldest first, as many as one answer has.

    `thread` comes with its subject. That is `limit` events, or about `max_bytes` of
    content but at least one event; what is left out is not read. Two queries.
    """
    rows = Event.objects.filter(thread_id=thread.id, seq__gt=after)
    if up_to is not None:
        rows = rows.filter(seq__lte=up_to)
    weighed = rows.order_by("seq").values_list("seq", Length("payload"), "body")
    found = list(weighed[: limit + 1])
    sizes = (_weight(*row[1:]) if content else 0 for row in found[:limit])
    count = fitting(sizes, max_bytes=max_bytes)
    if not count:
        return EventPart(items=(), more=False)
    last = found[count - 1][0]
    items = list_events(thread, after=after, up_to=last, limit=count, content=content)
    return EventPart(items=items, more=len(found) > count)


def _weight(sealed: int | None, body: str) -> int:
    """Bytes of an event's content. Sealing packs it; its body says what it was."""
    size: int = orjson.loads(body).get("bytes", 0)
    return max(size, sealed or 0)


def rows_at(
    places: Iterable[EventAddress], *, content: bool
) -> dict[EventAddress, Event]:
    """Return the rows of these events, whichever journals they lie in.

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


def get_event(thread: Thread, seq: int, *, content: bool = True) -> EventLine:
    """Return one event. One query. Raises SeqUnknownError."""
    row = Event.objects.filter(thread_id=thread.id, seq=seq).first()
    if row is None:
        raise SeqUnknownError
    return line_of(thread, row, content=content)


def line_of(thread: Thread, row: Event, *, content: bool) -> EventLine:
    """Return a row as it is shown; its content is opened only if asked for.

    No query.
    """
    return EventLine(
        seq=row.seq,
        at=row.at,
        type=row.type,
        actor=row.actor,
        body=orjson.loads(row.body),
        sealed=row.payload_digest is not None,
        erased=row.erased_by is not None,
        payload=log.open_payload(thread.subject, thread.project_id, row)
        if content
        else None,
        chain=bytes(row.chain).hex(),
    )
