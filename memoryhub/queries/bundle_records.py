"""What the lines of a bundle's states say; their schemas are made of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRecord:
    """A thread. Its other lines name it by this id."""

    id: UUID
    name: str
    status: str
    agent_type: str | None
    agent_instance: str | None
    session: str | None
    labels: Mapping[str, Any]
    config: Mapping[str, Any]
    parent: UUID | None
    parent_seq: int | None
    head_seq: int
    slots: int
    turns: int
    tokens: int
    bytes: int
    created_at: datetime
    last_event_at: datetime | None
    #: Of a thread that was imported: [instance, thread, head hash] there.
    origin: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key of working memory, visible when the bundle was made."""

    thread: UUID
    key: str
    value: Any
    erased: bool
    set_at: datetime
    set_by: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """The task of a thread."""

    thread: UUID
    status: str
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: datetime | None
    updated_at: datetime
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """A line of a thread's scratchpad."""

    thread: UUID
    seq: int
    at: datetime
    by: str
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRecord:
    """Where a text of a page lies: in the content of that event."""

    level: int
    thread: UUID
    seq: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    """A page of a thread's memory; its texts lie in events."""

    thread: UUID
    page_id: str
    type: str
    modality: str
    version: int
    importance: float
    role: str | None
    slot: int | None
    tier: str
    pinned: str | None
    levels: Sequence[LevelRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """A point that a thread's working memory can return to."""

    thread: UUID
    seq: int
    name: str | None
    description: str | None
    at: datetime
    by: str
    auto: bool
    parent: int | None
    keys: int
    notes: int
    has_task: bool


Record = (
    ThreadRecord | KeyRecord | TaskRecord | NoteRecord | PageRecord | CheckpointRecord
)
