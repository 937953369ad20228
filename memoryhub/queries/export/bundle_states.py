"""States of a bundle: what each thread's journal has come to, as of the cut.

They can all be folded again from the events; they stand there for people and programs
that would rather not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from memoryhub.journal.log import log
from memoryhub.journal.rows import projections
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.export.bundle_cuts import Cut, ThreadCut
from memoryhub.queries.export.bundle_files import Chunk, record_chunks
from memoryhub.queries.replay.state_files import CHUNK, Lines

THREADS: Final = "state/threads.jsonl"


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


def texts(
    cut: Cut, lines: Lines, *, among: Collection[UUID] | None = None
) -> Iterator[Chunk]:
    """Yield a file of states: of each thread `among` these, or of all, its records."""
    return record_chunks(
        record
        for thread in _threads(cut, among)
        for record in lines(thread, _state(thread), cut.taken_at)
    )


def thread_texts(cut: Cut) -> Iterator[Chunk]:
    """Yield `state/threads.jsonl`, erased ones included."""
    return record_chunks(_thread(cut, part, row) for part, row in _rows(cut.parts))


def _threads(cut: Cut, among: Collection[UUID] | None) -> Iterator[Thread]:
    """The living threads, each as of its cut, with its subject."""
    living = [
        part
        for part in cut.parts
        if part.status != "erased" and (among is None or part.id in among)
    ]
    for part, row in _rows(living):
        yield _as_cut(cut, part, row)


def _as_cut(cut: Cut, part: ThreadCut, row: Thread) -> Thread:
    row.subject = cut.subject
    row.head_seq, row.head_hash = part.head_seq, part.head_hash
    return row


def _state(thread: Thread) -> ThreadState:
    # Not by way of what readers keep: nobody looks at most of these again.
    return log.state_at(thread, thread.head_seq).state


def _rows(parts: Sequence[ThreadCut]) -> Iterator[tuple[ThreadCut, Thread]]:
    for begin in range(0, len(parts), CHUNK):
        batch = parts[begin : begin + CHUNK]
        rows = Thread.objects.in_bulk([part.id for part in batch])
        yield from ((part, rows[part.id]) for part in batch)


def _thread(cut: Cut, part: ThreadCut, row: Thread) -> ThreadRecord:
    if row.head_seq != part.head_seq and part.status != "erased":
        # It has moved on since, and its row with it.
        columns = projections.columns(_state(_as_cut(cut, part, row)))
        for name, value in columns.items():
            setattr(row, name, value)
    return ThreadRecord(
        id=part.id,
        name=part.name,
        status=part.status,
        agent_type=row.agent_type,
        agent_instance=row.agent_instance,
        session=row.session,
        labels=orjson.loads(row.labels),
        config=orjson.loads(row.config),
        parent=part.parent,
        parent_seq=part.parent_seq,
        head_seq=part.head_seq,
        slots=row.slot_count,
        turns=row.turn_count,
        tokens=row.token_count,
        bytes=row.byte_count,
        created_at=row.created_at,
        last_event_at=row.last_event_at,
        origin=orjson.loads(row.origin) if row.origin else None,
    )
