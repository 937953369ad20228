"""Outlines: heads built from the threads' rows alone, without folding.

Erasing a thread must not fold its journal: the key may be gone already, and nothing of
the folded state remains.
"""

from __future__ import annotations

from uuid import UUID

import orjson

from memoryhub.journal.log.heads import Heads, ThreadHead
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.paging_config import build_settings
from memoryhub.kernel.state.state import LineageSegment, ScopeLabels, ThreadState
from memoryhub.models.threads import Thread


class OutlineHeads(Heads):
    """Partial heads read from columns without folding, for `EraseThread` only."""

    def _load_current(self, thread: UUID, seq: int, digest: bytes) -> ThreadHead:
        row = Thread.objects.get(id=thread)
        return ThreadHead(
            state=build_outline(row),
            name=row.name,
            salt=bytes(row.name_salt),
            chain=bytes(row.head_hash),
            last_type=row.last_event_type,
            listed_at=row.listed_at,
            kept_seq=row.head_seq,
        )


def build_outline(row: Thread) -> ThreadState:
    """Return the thread's counts, settings and names, without pages and memory."""
    lineage = _parse_lineage(row)
    config = ThreadConfig(**orjson.loads(row.config))
    return ThreadState(
        id=row.id,
        project=row.project_id,
        subject=row.subject_id,
        seq=row.head_seq,
        at=row.last_event_at,
        status=row.status,  # type: ignore[arg-type]  # closed words
        scope=_build_scope(row),
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
        paging=Paging(settings=build_settings(config)),
    )


def _parse_lineage(row: Thread) -> tuple[LineageSegment, ...]:
    return tuple(
        LineageSegment(thread=UUID(home), first=first, end=end, up_to_seq=seq)
        for home, first, end, seq in orjson.loads(row.lineage)
    )


def _build_scope(row: Thread) -> ScopeLabels:
    return ScopeLabels(
        agent_type=row.agent_type,
        agent_instance=row.agent_instance,
        session=row.session,
    )
