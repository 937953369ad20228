"""Last messages: the newest of many threads, for lines of a list. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.events import rows_at

#: Messages of more bytes are not opened for a line.
LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The newest message of a thread."""

    #: With its subject.
    thread: Thread
    role: str | None
    from_name: str
    bytes: int
    erased: bool
    #: None once erased, when it is too large, or when null was sent.
    content: Any

    @property
    def large(self) -> bool:
        """Tell whether it is not opened for a line."""
        return self.bytes > LARGEST


def list_last(newest: Mapping[UUID, int]) -> dict[UUID, LastMessage]:
    """Return the messages at these indexes, by their thread.

    A thread that has none at its index is left out, as a fork without a message of its
    own. Two queries, however many threads.
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
    events = rows_at(places, content=True)
    return {
        row.thread_id: LastMessage(
            thread=row.thread,
            role=row.role,
            from_name=row.from_name,
            bytes=row.bytes,
            erased=row.erased,
            content=_content(row, events.get((row.thread_id, row.seq))),
        )
        for row in rows
    }


def _content(row: Slot, stored: Event | None) -> Any:
    return replay.opened(row.thread, stored).get("content") if stored else None
