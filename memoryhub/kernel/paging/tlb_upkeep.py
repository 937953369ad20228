"""Removal of TLB entries on request, to check that every page is found again. Pure."""

from __future__ import annotations

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import residency
from memoryhub.kernel.paging.page_commands import FlushTlb, InvalidateTlb
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.page_events import TlbFlushed, TlbInvalidated


def decide_invalidate_tlb(
    decision: Decision, command: InvalidateTlb, pages: PageTable
) -> None:
    """Drop the entry of one page or the entries of one tier. Emits tlb.invalidated."""
    paging = decision.paging
    if command.page_id is not None:
        dropped = int(paging.tlb.find(command.page_id) is not None)
    else:
        dropped = len(residency.list_in_tier(paging, command.tier or ""))
    decision.emit(
        TlbInvalidated(
            turn=decision.turn,
            by=command.by,
            page_id=command.page_id if dropped else None,
            tier=command.tier,
            dropped=dropped,
        )
    )


def decide_flush_tlb(decision: Decision, command: FlushTlb, pages: PageTable) -> None:
    """Drop all entries. Emits tlb.flushed."""
    dropped = len(decision.paging.tlb.held)
    decision.emit(TlbFlushed(turn=decision.turn, by=command.by, dropped=dropped))


PART = KernelPart(
    commands={InvalidateTlb: decide_invalidate_tlb, FlushTlb: decide_flush_tlb},
    events={
        TlbInvalidated: residency.apply_tlb_invalidated,
        TlbFlushed: residency.apply_tlb_flushed,
    },
)
