"""Event bodies of erasing: what was forgotten, by whose order, in place of what it was.

Written by the eraser alone. Neither has a payload, so no key is needed for them.
"""

from __future__ import annotations

from typing import Literal, get_args
from uuid import UUID

from memoryhub.kernel.state.bodies import Body, Count, Event
from memoryhub.kernel.state.page_events import EntryBody
from memoryhub.kernel.text.names import Name

Reason = Literal[
    "not_needed",
    "consent_withdrawn",
    "objection",
    "unlawful",
    "legal_duty",
    "child",
    "retention",
    "poisoning",
    "mistake",
    "test",
]
REASONS: tuple[str, ...] = get_args(Reason)

#: Records of one thread: first <= seq <= last.
Range = tuple[UUID, Count, Count]


class ErasedPage(Body):
    """A live page some text of which is erased; FULL among them: the page goes."""

    page_id: Name
    #: As it stays, without what was erased; of a page that goes, as it was.
    entry: EntryBody


class ThreadErased(Event):
    """All of the thread is erased. Its last event."""

    event_type = "thread.erased"

    erasure: UUID
    reason: Reason
    #: Events that stand before it.
    records: Count


class RecordsErased(Event):
    """Records of the thread, or of what it inherits, are erased."""

    event_type = "records.erased"

    erasure: UUID
    reason: Reason
    #: Of its own and of its ancestors, no further than it inherits them.
    ranges: list[Range]
    #: How many the ranges name.
    records: Count
    pages: list[ErasedPage]
