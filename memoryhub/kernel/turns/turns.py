"""Turns: one model call each; what was sent to the model is kept for good. Pure."""

from __future__ import annotations

from dataclasses import replace

from memoryhub.errors import NotFoundError
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.levels import block_lines
from memoryhub.kernel.observing import observing
from memoryhub.kernel.packing import context_records
from memoryhub.kernel.paging import (
    eviction,
    pins,
    prerequisites,
    recall_use,
    working_set,
)
from memoryhub.kernel.paging.lookups import Found
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    RecordContext,
)
from memoryhub.kernel.paging.precedence import USER
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.page_events import TurnBegan, TurnPacked
from memoryhub.kernel.state.pages import Entry, slot_page_id
from memoryhub.kernel.state.paging import (
    HISTORY_TURNS,
    PACKED_KEPT,
    REFAULT_TURNS,
    Exchanges,
    Paging,
    Spent,
    listed,
)
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import slots
from memoryhub.kernel.turns import own_tools


def begin_turn(decision: Decision, command: BeginTurn, pages: PageTable) -> None:
    """Append the slots that came with it, then begin a model call.

    Emits tools.set when they are others, slot.appended each, turn.began, and
    page.mapped when the newest user slot was not in the working set, or less faithfully
    than it fits. Raises as `slots.append` and `own_tools.set_tools`.
    """
    if command.tools is not None:
        own_tools.set_tools(decision, command.tools, pages)
    promised = _promise(decision)
    blocks = _carry(decision, command)
    newest = None
    slots.require_room(decision.state, len(command.slots))
    for slot in command.slots:
        slots.append_one(decision, slot, pages)
        # Later ones may send it home again, where no row tells of it yet.
        newest = _resident_user(decision.paging) or newest
    over_budget = observing.begin_turn(decision, command, pages)
    continues = command.continues
    if continues is None:
        continues = continues_exchange(decision.paging)
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


def _promise(decision: Decision) -> int | None:
    """Make room for what the thread asks turns to bring along; None as before."""
    settings = decision.paging.settings
    if settings.promise == settings.promised_tokens:
        return None
    decision.goes_by(replace(settings, promised_tokens=settings.promise))
    eviction.shrink(decision)
    return settings.promise


def _carry(decision: Decision, command: BeginTurn) -> int | None:
    """Make room for the blocks that requests carry from now on; None as before.

    They come off what is usable, and share with pins what those may hold.
    """
    if command.blocks is None:
        return None
    paging = decision.paging
    bare = replace(paging.settings, blocks_tokens=0)
    room = bare.pinnable - pins.pinned_tokens(paging)
    found = block_lines.chosen(command.blocks if bare.blocks else (), room)
    tokens = block_lines.tokens_of(found)
    if tokens == paging.settings.blocks_tokens:
        return None
    decision.goes_by(replace(bare, blocks_tokens=tokens))
    eviction.shrink(decision)
    return tokens


def continues_exchange(paging: Paging) -> bool:
    """Return whether a turn that begins now continues the exchange before it."""
    return paging.last_user is not None and paging.users_since_turn == 0


def _resident_user(paging: Paging) -> Entry | None:
    """The entry of the newest user slot, if it is mapped or hot."""
    if paging.last_user is None:
        return None
    page_id = slot_page_id(paging.last_user.slot)
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return None if page is None else page.entry


def _show_user(
    decision: Decision, entry: Entry | None, made: MadeLevels | None, pages: PageTable
) -> None:
    """The newest user slot is in every request, as faithfully as it fits."""
    user = decision.paging.last_user
    if user is None:
        return
    entry = _resident_user(decision.paging) or entry
    entry = entry or pages.entry(slot_page_id(user.slot))
    if entry is None:
        # A journal from before paging: it has no pages.
        return
    # No look-up: nobody named the page.
    found = Found(entry, None, None)
    if working_set.fitting(decision, entry, 0, own=USER, cause="turn") != 0:
        found = working_set.write_made(decision, found, made)
    working_set.map_entry(decision, found.live, 0, cause="turn", own=USER)


def record_context(
    decision: Decision, command: RecordContext, pages: PageTable
) -> None:
    """Keep what a turn's request was made of. Emits turn.packed; a repeat, nothing."""
    state = decision.state
    if not 0 < command.turn <= state.turn_count:
        raise NotFoundError
    if command.turn in state.paging.packed:
        return
    event = context_records.packed(
        command.record,
        turn=command.turn,
        as_of_seq=command.as_of_seq,
        prefix_tokens=command.prefix_tokens,
        simulated=command.simulated,
        own=state.id,
    )
    shown = context_records.shown(command.record)
    sealed = {"sha256": command.sha256} | ({"shown": shown} if shown else {})
    decision.emit(event, strict_json.as_sent(sealed))


def began(state: ThreadState, event: TurnBegan) -> ThreadState:
    paging = state.paging
    if event.blocks is not None:
        paging = paging.carrying(event.blocks)
    if event.promised is not None:
        paging = paging.promising(event.promised)
    paging = recall_use.began(paging, event.n, continues=event.continues)
    after = paging._replace(
        spent=paging.spent if event.continues else Spent(),
        calls=paging.calls if event.continues else (),
        exchanges=_exchanges(paging, event),
        users_since_turn=0,
        turn_counts=paging.counts,
        turn_lookups=(paging.tlb.hits, paging.tlb.misses),
    )
    if after.history or after.refaults or after.thrashing:
        after = _forgotten(after, event.n)
    return state._replace(turn_count=event.n, paging=after)


def _exchanges(paging: Paging, event: TurnBegan) -> Exchanges:
    if event.exchange is None:
        return paging.exchanges
    return paging.exchanges.begin(event.exchange)


def _forgotten(paging: Paging, turn: int) -> Paging:
    """Without what lies too many turns back to matter."""
    history, thrashing = paging.history, paging.thrashing
    for page_id in [
        name for name, past in listed(history) if turn - past.last_turn > HISTORY_TURNS
    ]:
        history = history.remove(page_id)
    for page_id in [
        name for name, at in listed(thrashing) if turn - at >= REFAULT_TURNS
    ]:
        thrashing = thrashing.remove(page_id)
    refaults = tuple(each for each in paging.refaults if turn - each[0] < REFAULT_TURNS)
    return paging._replace(history=history, thrashing=thrashing, refaults=refaults)


def packed(state: ThreadState, event: TurnPacked) -> ThreadState:
    turns = (*state.paging.packed, event.turn)[-PACKED_KEPT:]
    paging = prerequisites.packed(recall_use.packed(state.paging, event), event)
    return state._replace(paging=paging._replace(packed=turns))


PART = Part(
    commands={BeginTurn: begin_turn},
    upkeep={RecordContext: record_context},
    events={TurnBegan: began, TurnPacked: packed},
)
