"""Turns: one model call each; the record of each request is kept for good. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memoryhub.errors import NotFoundError
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.context import block_lines
from memoryhub.kernel.context.block_lines import CarriedBlock
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.observing import observing
from memoryhub.kernel.packing import context_records
from memoryhub.kernel.paging import prerequisites, recall_use, working_set
from memoryhub.kernel.paging.eviction import eviction, pins
from memoryhub.kernel.paging.eviction.precedence import USER
from memoryhub.kernel.paging.lookups import PageLookup
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    RecordContext,
)
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.page_events import TurnBegan, TurnPacked
from memoryhub.kernel.state.pages import PageEntry, build_slot_page_id
from memoryhub.kernel.state.paging import (
    HISTORY_TURNS,
    PACKED_KEPT,
    REFAULT_TURNS,
    Exchanges,
    FaultSpend,
    Paging,
    list_items,
)
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import slots
from memoryhub.kernel.turns import own_tools


def decide_begin_turn(decision: Decision, command: BeginTurn, pages: PageTable) -> None:
    """Append the new slots of the turn, then begin a model call.

    Emits tools.set when the tools changed, slot.appended each, turn.began, and
    page.mapped when the newest user slot was not in the working set, or less faithfully
    than it fits. Raises as `slots.decide_append_slots` and
    `own_tools.decide_set_tools`.
    """
    if command.tools is not None:
        own_tools.decide_set_tools(decision, command.tools, pages)
    promised = _reserve_recall(decision)
    blocks = _reserve_blocks(decision, command)
    newest = None
    slots.require_room(decision.state, len(command.slots))
    for slot in command.slots:
        slots.append_one(decision, slot, pages)
        # Later slots may send the user slot home again, where it has no row yet.
        newest = _find_resident_user(decision.paging) or newest
    over_budget = observing.bring_observations(decision, command, pages)
    continues = command.continues
    if continues is None:
        continues = should_continue_exchange(decision.paging)
    decision.emit(
        TurnBegan(
            n=decision.turn + 1,
            mode=command.mode or decision.paging.settings.mode,
            continues=continues,
            exchange=max(1, decision.paging.exchanges.begun + (not continues)),
            over_budget=over_budget,
            simulated=command.simulated,
            blocks=blocks,
            promised=promised,
        )
    )
    _show_user(decision, newest, command.made, pages)


def _reserve_recall(decision: Decision) -> int | None:
    """Make room for the recall that the thread asks for; None if unchanged."""
    settings = decision.paging.settings
    if settings.promise == settings.promised_tokens:
        return None
    decision.use_settings(replace(settings, promised_tokens=settings.promise))
    eviction.shrink(decision)
    return settings.promise


def _reserve_blocks(decision: Decision, command: BeginTurn) -> int | None:
    """Make room for the blocks that requests carry from now on; None if unchanged.

    Blocks reduce the usable tokens, and share the pinned share with pins.
    """
    if command.blocks is None:
        return None
    settings = decision.paging.settings
    tokens = _count_carried(decision.paging, command.blocks)
    if tokens == settings.blocks_tokens:
        return None
    decision.use_settings(replace(settings, blocks_tokens=tokens))
    eviction.shrink(decision)
    return tokens


def _count_carried(paging: Paging, blocks: Sequence[CarriedBlock]) -> int:
    """Count the tokens of the blocks that fit beside the pins."""
    bare = replace(paging.settings, blocks_tokens=0)
    room = bare.pinnable - pins.count_pinned_tokens(paging)
    found = block_lines.choose_blocks(blocks if bare.blocks else (), room)
    return block_lines.count_tokens_of(found)


def carry_blocks(state: ThreadState, blocks: Sequence[CarriedBlock]) -> ThreadState:
    """Return the state with room for these blocks, as the next turn makes it.

    For a preview: nothing is evicted, so packing leaves out what has no room.
    """
    tokens = _count_carried(state.paging, blocks)
    return state._replace(paging=state.paging.set_blocks_tokens(tokens))


def should_continue_exchange(paging: Paging) -> bool:
    """Return whether a turn that begins now continues the exchange before it."""
    return paging.last_user is not None and paging.users_since_turn == 0


def _find_resident_user(paging: Paging) -> PageEntry | None:
    """Return the entry of the newest user slot, if it is mapped or hot."""
    if paging.last_user is None:
        return None
    page_id = build_slot_page_id(paging.last_user.slot)
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return None if page is None else page.entry


def _show_user(
    decision: Decision,
    entry: PageEntry | None,
    made: MadeLevels | None,
    pages: PageTable,
) -> None:
    """Map the newest user slot as faithfully as it fits: every request shows it."""
    user = decision.paging.last_user
    if user is None:
        return
    entry = _find_resident_user(decision.paging) or entry
    entry = entry or pages.find_entry(build_slot_page_id(user.slot))
    if entry is None:
        # A journal from before paging has no pages.
        return
    # No look-up: no command named the page.
    found = PageLookup(entry, None, None)
    if working_set.find_fitting_level(decision, entry, 0, own=USER, cause="turn") != 0:
        found = working_set.write_made_levels(decision, found, made)
    working_set.map_entry(decision, found.live, 0, cause="turn", own=USER)


def decide_record_context(
    decision: Decision, command: RecordContext, pages: PageTable
) -> None:
    """Keep the record of a turn's request. Emits turn.packed; a repeat, nothing."""
    state = decision.state
    if not 0 < command.turn <= state.turn_count:
        raise NotFoundError
    if command.turn in state.paging.packed:
        return
    event = context_records.build_turn_packed(
        command.record,
        turn=command.turn,
        as_of_seq=command.as_of_seq,
        prefix_tokens=command.prefix_tokens,
        simulated=command.simulated,
        own=state.id,
        counts_claims=not state.paging.counts_claims,
    )
    shown = context_records.list_shown_amounts(command.record)
    sealed = {"sha256": command.sha256} | ({"shown": shown} if shown else {})
    decision.emit(event, strict_json.dump_stored(sealed))


def apply_turn_began(state: ThreadState, event: TurnBegan) -> ThreadState:
    paging = state.paging
    if event.blocks is not None:
        paging = paging.set_blocks_tokens(event.blocks)
    if event.promised is not None:
        paging = paging.set_promised_tokens(event.promised)
    paging = recall_use.count_wasted(paging, event.n, continues=event.continues)
    after = paging._replace(
        spent=paging.spent if event.continues else FaultSpend(),
        calls=paging.calls if event.continues else (),
        exchanges=_advance_exchanges(paging, event),
        users_since_turn=0,
        turn_counts=paging.counts,
        turn_lookups=(paging.tlb.hits, paging.tlb.misses),
    )
    if after.history or after.refaults or after.thrashing:
        after = _forget_old_pages(after, event.n)
    return state._replace(turn_count=event.n, paging=after)


def _advance_exchanges(paging: Paging, event: TurnBegan) -> Exchanges:
    if event.exchange is None:
        return paging.exchanges
    return paging.exchanges.begin(event.exchange)


def _forget_old_pages(paging: Paging, turn: int) -> Paging:
    """Drop history, refaults and thrashing that lie too many turns back to matter."""
    history, thrashing = paging.history, paging.thrashing
    for page_id in [
        name
        for name, past in list_items(history)
        if turn - past.last_turn > HISTORY_TURNS
    ]:
        history = history.remove(page_id)
    for page_id in [
        name for name, at in list_items(thrashing) if turn - at >= REFAULT_TURNS
    ]:
        thrashing = thrashing.remove(page_id)
    refaults = tuple(each for each in paging.refaults if turn - each[0] < REFAULT_TURNS)
    return paging._replace(history=history, thrashing=thrashing, refaults=refaults)


def apply_turn_packed(state: ThreadState, event: TurnPacked) -> ThreadState:
    turns = (*state.paging.packed, event.turn)[-PACKED_KEPT:]
    paging = prerequisites.start_learning(
        recall_use.note_recall(state.paging, event), event
    )
    counts = paging.counts_claims or bool(event.counts_claims)
    return state._replace(paging=paging._replace(packed=turns, counts_claims=counts))


PART = KernelPart(
    commands={BeginTurn: decide_begin_turn},
    upkeep={RecordContext: decide_record_context},
    events={TurnBegan: apply_turn_began, TurnPacked: apply_turn_packed},
)
