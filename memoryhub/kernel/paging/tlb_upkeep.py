"""Dropping TLB entries on request: to see that everything is found again. Pure."""

from __future__ import annotations

from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.paging import residency
from memoryhub.kernel.paging.page_commands import FlushTlb, InvalidateTlb
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.page_events import TlbFlushed, TlbInvalidated


def invalidate(course: Course, command: InvalidateTlb, pages: PageTable) -> None:
    """Drop the entry of one page or those of one tier. Emits tlb.invalidated."""
    paging = course.paging
    if command.page_id is not None:
        dropped = int(paging.tlb.find(command.page_id) is not None)
    else:
        dropped = len(residency.in_tier(paging, command.tier or ""))
    course.emit(
        TlbInvalidated(
            turn=course.turn,
            by=command.by,
            page_id=command.page_id if dropped else None,
            tier=command.tier,
            dropped=dropped,
        )
    )


def flush(course: Course, command: FlushTlb, pages: PageTable) -> None:
    """Drop all entries. Emits tlb.flushed."""
    dropped = len(course.paging.tlb.held)
    course.emit(TlbFlushed(turn=course.turn, by=command.by, dropped=dropped))


PART = Part(
    commands={InvalidateTlb: invalidate, FlushTlb: flush},
    events={
        TlbInvalidated: residency.tlb_invalidated,
        TlbFlushed: residency.tlb_flushed,
    },
)
