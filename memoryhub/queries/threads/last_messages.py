"""Newest messages of many threads, for lines of a list. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from memoryhub.journal import texts
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.events import get_rows_at
from memoryhub.vault.keys import cold_payloads

#: Maximum size in bytes of a message opened for a line.
LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The newest message of a thread."""

    #: Comes with its subject.
    thread: Thread
    role: str | None
    from_name: str
    bytes: int
    erased: bool
    struck: bool
    #: Whether the content is in cold storage, from which a list fetches nothing.
    cold: bool
    #: None if erased, too large, cold, or sent as null.
    content: Any

    @property
    def large(self) -> bool:
        """Tell whether the message is too large to open for a line."""
        return self.bytes > LARGEST


def list_last(newest: Mapping[UUID, int]) -> dict[UUID, LastMessage]:
    """Return the messages at these indexes, by thread.

    A thread without a slot of its own at the index is left out, e.g. a fork without own
    messages. Two queries, however many threads.
    """
    if not newest:
        return {}
    named = Q()
    for thread, index in newest.items():
        named |= Q(thread_id=thread, index=index)
    rows = list(Slot.objects.filter(named).select_related("thread__subject"))
    places = [
        (row.thread_id, row.seq)
        for row in rows
        if row.bytes <= LARGEST and not row.erased
    ]
    events = get_rows_at(places, content=True)
    return {
        row.thread_id: LastMessage(
            thread=row.thread,
            role=row.role,
            from_name=row.from_name,
            bytes=row.bytes,
            erased=row.erased,
            struck=row.struck_seq is not None,
            cold=_is_cold(events.get((row.thread_id, row.seq))),
            content=_open_content(row, events.get((row.thread_id, row.seq))),
        )
        for row in rows
    }


def _is_cold(stored: Event | None) -> bool:
    if stored is None or stored.payload is None:
        return False
    return cold_payloads.is_reference(bytes(stored.payload))


def _open_content(row: Slot, stored: Event | None) -> Any:
    if stored is None or _is_cold(stored):
        return None
    return texts.open_content(row.thread, stored).get("content")
