"""Rows as they are inserted: the values of a model's columns, in their order.

An instance of the model costs ten times as much, and every append makes two.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class EventRow(NamedTuple):
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


class SlotRow(NamedTuple):
    thread_id: UUID
    # Named after the model's field; nobody asks a row for a value's place.
    index: int  # type: ignore[assignment]
    seq: int
    turn: int
    from_name: str
    to_name: str
    type: str
    role: str | None
    tokens: int
    bytes: int
    erased: bool


class TurnRow(NamedTuple):
    thread_id: UUID
    n: int
    seq: int
    packed_seq: int | None
