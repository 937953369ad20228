"""Event bodies of erasing: tombstones that name the erasure and its records.

Only the eraser writes these events. No tombstone has a payload, so none needs a key.
"""

from __future__ import annotations

from typing import Literal, get_args
from uuid import UUID

from memoryhub.kernel.state.bodies import Body, Count, EventBody
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
    """A live page that loses a text; the page goes if it loses FULL."""

    page_id: Name
    #: Remaining entry, without erased texts; of a page that goes, the former entry.
    entry: EntryBody


class ThreadErased(EventBody):
    """The whole thread is erased. The last event of a thread."""

    event_type = "thread.erased"

    erasure: UUID
    reason: Reason
    #: Number of events before this event.
    records: Count


class RecordsErased(EventBody):
    """Records of the thread, or inherited records, are erased."""

    event_type = "records.erased"

    erasure: UUID
    reason: Reason
    #: Ranges of the thread and of its ancestors, as far as the thread inherits them.
    ranges: list[Range]
    #: Number of records in the ranges.
    records: Count
    #: With their entries, so that a fold needs no row; see decision 30.
    pages: list[ErasedPage]
