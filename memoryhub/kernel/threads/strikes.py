"""Strikes: messages taken out of requests, lists and searches. Pure.

A struck slot keeps its index and its text: the past and forks of the past show it.
Erasing is another act. See decision 77.
"""

from __future__ import annotations

from memoryhub.errors import NotFoundError, SlotInheritedError
from memoryhub.kernel.commands import StrikeSlots
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import residency
from memoryhub.kernel.paging.entries import build_entry_body
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.page_events import SlotStruck
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.state import ThreadState


def decide_strike_slots(
    decision: Decision, command: StrikeSlots, pages: PageTable
) -> None:
    """Strike slots out. Emits slot.struck for each that was not struck before.

    Raises NotFoundError for an index beyond the newest, and SlotInheritedError for a
    slot of an ancestor, whose journal a fork does not change.
    """
    state = decision.state
    indexes = sorted({*command.indexes})
    if indexes[-1] >= state.slot_count:
        raise NotFoundError
    if indexes[0] < state.inherited:
        raise SlotInheritedError(inherited=state.inherited)
    seqs = pages.list_unstruck(indexes)
    stored = pages.list_entries([build_slot_page_id(index) for index in seqs])
    for index, seq in sorted(seqs.items()):
        page_id = build_slot_page_id(index)
        held = decision.paging.tlb.find(page_id)
        # A message that brought a page, or is erased, has no page of its own.
        entry = held or stored.get(page_id)
        tier = decision.paging.find_tier(page_id) or (entry.home if entry else "L2")
        read = None if held or not entry else build_entry_body(entry, thread=state.id)
        decision.emit(
            SlotStruck(
                turn=decision.turn,
                by=command.by,
                page_id=page_id,
                tier_before=tier,  # type: ignore[arg-type]  # closed words
                lookup="hit" if held else "miss" if entry else None,
                entry=read,
                index=index,
                slot_seq=seq,
            )
        )


def apply_slot_struck(state: ThreadState, event: SlotStruck) -> ThreadState:
    if event.lookup is None:
        return state
    return residency.apply_page_deleted(state, event)


PART = KernelPart(
    commands={StrikeSlots: decide_strike_slots},
    events={SlotStruck: apply_slot_struck},
)
