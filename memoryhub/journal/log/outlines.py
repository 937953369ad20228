"""Outlines: heads made of the threads' rows alone, for an order that needs no more.

A thread is ended without folding its journal: what that would need a key for may be
gone already, and nothing of it stays in the state.
"""

from __future__ import annotations

from uuid import UUID

import orjson

from memoryhub.journal.log.heads import Head, Heads
from memoryhub.kernel.state.events import Limits
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.paging_config import settings_of
from memoryhub.kernel.state.state import Scope, Segment, ThreadState
from memoryhub.models.threads import Thread


class Outlines(Heads):
    """Heads as the rows tell of them. Good for `EraseThread`, and for nothing else."""

    def _current(self, thread: UUID, seq: int, digest: bytes) -> Head:
        row = Thread.objects.get(id=thread)
        return Head(
            state=outline(row),
            name=row.name,
            salt=bytes(row.name_salt),
            chain=bytes(row.head_hash),
            last_type=row.last_event_type,
            listed_at=row.listed_at,
            kept_seq=row.head_seq,
        )


def outline(row: Thread) -> ThreadState:
    """Return the thread's counts, settings and names, without pages and memory."""
    lineage = _lineage(row)
    config = Limits(**orjson.loads(row.config))
    return ThreadState(
        id=row.id,
        project=row.project_id,
        subject=row.subject_id,
        seq=row.head_seq,
        at=row.last_event_at,
        status=row.status,  # type: ignore[arg-type]  # closed words
        scope=_scope(row),
        labels=tuple(orjson.loads(row.labels).items()),
        config=config,
        depth=len(lineage),
        lineage=lineage,
        inherited=lineage[-1].end if lineage else 0,
        created_at=row.created_at,
        slot_count=row.slot_count,
        turn_count=row.turn_count,
        token_count=row.token_count,
        byte_count=row.byte_count,
        active_at=row.last_active_at,
        paging=Paging(settings=settings_of(config)),
    )


def _lineage(row: Thread) -> tuple[Segment, ...]:
    return tuple(
        Segment(thread=UUID(home), first=first, end=end, up_to_seq=seq)
        for home, first, end, seq in orjson.loads(row.lineage)
    )


def _scope(row: Thread) -> Scope:
    return Scope(
        agent_type=row.agent_type,
        agent_instance=row.agent_instance,
        session=row.session,
    )
