"""Rows to insert: the values of a model's columns, in their order.

An instance of the model costs ten times as much, and every append makes two.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class EventTableRow(NamedTuple):
    thread_id: UUID
    seq: int
    type: str
    at: datetime
    actor: str
    body: str
    payload: bytes | None
    payload_digest: bytes | None
    erased_by: int | None
    chain: bytes
    page: str | None


class SlotRow(NamedTuple):
    thread_id: UUID
    # Named after the model's field; no caller uses tuple.index of a row.
    index: int  # type: ignore[assignment]
    seq: int
    turn: int
    from_name: str
    to_name: str
    type: str
    role: str | None
    tokens: int
    bytes: int
    at: datetime
    subject_id: UUID | None
    erased: bool
    struck_seq: int | None


class TurnTableRow(NamedTuple):
    thread_id: UUID
    n: int
    seq: int
    packed_seq: int | None
    counters: str


class PageRow(NamedTuple):
    thread_id: UUID
    page_id: str
    created_seq: int
    created_turn: int
    seq: int
    deleted_seq: int | None
    version: int
    type: str
    modality: str
    importance: float
    role: str | None
    slot: int | None
    home: str
    full_seq: int
    full_thread: UUID | None
    tokens: int
    cost: int
    hint_seq: int | None
    hint_thread: UUID | None
    name: str | None


class LevelRow(NamedTuple):
    thread_id: UUID
    page_id: str
    version: int
    level: int
    seq: int
    source: UUID | None
    tokens: int
    cost: int
    producer: str
    home: str


class EvictedPageRow(NamedTuple):
    thread_id: UUID
    page: str
    seq: int


class KeyRow(NamedTuple):
    thread_id: UUID
    key: str
    project_id: UUID
    version: int
    value_thread: UUID
    value_seq: int
    bytes: int
    expires_at: datetime | None


class CheckpointRow(NamedTuple):
    thread_id: UUID
    seq: int
    name: str | None
    #: This column and `by` are filled from the event, once the row is written or
    #: listed.
    at: datetime | None
    by: str | None
    auto: bool
    parent: int | None
    counts: str
    touched: int | None
    event_thread: UUID
    event_seq: int


class MarkedTurnRow(NamedTuple):
    thread_id: UUID
    turn: int
    project_id: UUID
    subject_id: UUID
    mark: str
    #: This column and `by` are filled from the event.
    at: datetime | None
    by: str | None
    event_thread: UUID
    event_seq: int


class AssertionRow(NamedTuple):
    thread_id: UUID
    seq: int
    origin: str
    retracted_seq: int | None
    wrong: bool
    cardinality: str | None
    #: All columns that follow are filled from the payload, once the row is written or
    #: listed.
    timeline: bytes = b""
    entity: bytes = b""
    predicate: bytes = b""
    value: bytes = b""
    many: bool = False
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None


class DerivationRow(NamedTuple):
    thread_id: UUID
    source_seq: int
    derived_thread: UUID
    derived_seq: int


class WebhookQueueRow(NamedTuple):
    thread_id: UUID
    webhook: UUID
    sent_seq: int
    head_seq: int
    due_at: datetime
    failures: int


class DueRow(NamedTuple):
    thread_id: UUID
    seq: int
    project_id: UUID
    due_at: datetime
