"""States of a bundle: each thread's state, folded from its journal up to the cut.

The bundle's events give the same states when they are folded again. The files spare
people and programs that work.
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
from memoryhub.queries.export.bundle_cuts import BundleCut, ThreadCut
from memoryhub.queries.export.bundle_files import Chunk, render_records
from memoryhub.queries.replay.state_files import CHUNK, Lines

THREADS: Final = "state/threads.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRecord:
    """A thread of a bundle; lines of other files refer to the thread by `id`."""

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
    #: Source of an imported thread: [instance, thread, head hash]; else None.
    origin: Sequence[str] | None


def iter_state_chunks(
    cut: BundleCut, lines: Lines, *, among: Collection[UUID] | None = None
) -> Iterator[Chunk]:
    """Yield a file of state records: of the threads `among`, or of all threads."""
    return render_records(
        record
        for thread in _iter_threads(cut, among)
        for record in lines(thread, _fold_state(thread), cut.taken_at)
    )


def iter_thread_chunks(cut: BundleCut) -> Iterator[Chunk]:
    """Yield `state/threads.jsonl`, erased threads included."""
    return render_records(iter_thread_records(cut))


def iter_thread_records(cut: BundleCut) -> Iterator[ThreadRecord]:
    """Yield the records of all threads, erased threads included."""
    for part, row in _iter_rows(cut.parts):
        yield _build_record(cut, part, row)


def fold_cut_thread(cut: BundleCut, part: ThreadCut) -> tuple[Thread, ThreadState]:
    """Return a thread as of its cut, with its subject, and the thread's state."""
    thread = _set_cut_head(cut, part, Thread.objects.get(id=part.id))
    return thread, _fold_state(thread)


def _iter_threads(cut: BundleCut, among: Collection[UUID] | None) -> Iterator[Thread]:
    """Yield the threads that are not erased, each as of its cut, with its subject."""
    living = [
        part
        for part in cut.parts
        if part.status != "erased" and (among is None or part.id in among)
    ]
    for part, row in _iter_rows(living):
        yield _set_cut_head(cut, part, row)


def _set_cut_head(cut: BundleCut, part: ThreadCut, row: Thread) -> Thread:
    row.subject = cut.subject
    row.head_seq, row.head_hash = part.head_seq, part.head_hash
    return row


def _fold_state(thread: Thread) -> ThreadState:
    # Bypass the readers' cache: most of these states are read once.
    return log.fold_thread(thread, thread.head_seq).state


def _iter_rows(parts: Sequence[ThreadCut]) -> Iterator[tuple[ThreadCut, Thread]]:
    for begin in range(0, len(parts), CHUNK):
        batch = parts[begin : begin + CHUNK]
        rows = Thread.objects.in_bulk([part.id for part in batch])
        yield from ((part, rows[part.id]) for part in batch)


def _build_record(cut: BundleCut, part: ThreadCut, row: Thread) -> ThreadRecord:
    if row.head_seq != part.head_seq and part.status != "erased":
        # The thread moved since the cut: fold its columns as of the cut.
        columns = projections.build_columns(_fold_state(_set_cut_head(cut, part, row)))
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
