"""Slots: a thread's messages, numbered densely and never changed.

Pure. `decide_append_slots` decides, `apply_slot_appended` folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from memoryhub.errors import NoRoomError, ThreadFullError
from memoryhub.kernel.commands import AppendSlots, EventDraft, MadeLevels, NewSlot
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.levels import making
from memoryhub.kernel.messages.reading import ROLES
from memoryhub.kernel.paging import citations, prerequisites, residency, working_set
from memoryhub.kernel.paging.entries import build_place_body
from memoryhub.kernel.paging.eviction import groups, pins
from memoryhub.kernel.paging.eviction.precedence import USER, Precedence, Rank
from memoryhub.kernel.paging.lookups import PageLookup
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.events import Role, SlotAppended
from memoryhub.kernel.state.page_events import Cause, PlaceBody, SlotPage
from memoryhub.kernel.state.pages import (
    FULL,
    LevelEntry,
    Location,
    PageEntry,
    build_slot_page_id,
    choose_slot_importance,
    choose_slot_type,
)
from memoryhub.kernel.state.paging import Paging, UserSlot
from memoryhub.kernel.state.state import ThreadState, count_name
from memoryhub.kernel.text import strict_json


class CarriedPage(NamedTuple):
    """A page that a tool's message brings, and the location of its text."""

    page_id: str
    source: PlaceBody


_CHAT_ROLES = {f"chat.{name}": role for name, role in ROLES.items()}


def decide_append_slots(
    decision: Decision, command: AppendSlots, pages: PageTable
) -> None:
    """Number each new slot and give it its page.

    Emits slot.appended per slot, each after the evictions for its room; all or none.
    Raises ThreadFullError when the batch does not fit below `max_slots`, and
    NoRoomError for a message of the user that fits into the context at no level.
    """
    append_each(decision, command.slots, pages)


def append_each(decision: Decision, new: Sequence[NewSlot], pages: PageTable) -> None:
    """Append these slots, in order, to a thread that takes them."""
    require_room(decision.state, len(new))
    for slot in new:
        append_one(decision, slot, pages)


def append_one(decision: Decision, slot: NewSlot, pages: PageTable) -> None:
    """Append a slot; its page is mapped at FULL if that fits, else at the best level.

    A slot that asks for a page, or brings it, gets no page: the fetched page is shown
    in its place. See decision 45.
    """
    decision.paging.settings.require_tokens(slot.counted_by)
    index, role = decision.state.slot_count, get_role(slot)
    if slot.cites:
        # Before the message makes room, so that pages in use stay.
        citations.emit_citations(decision, slot.cites, pages, slot=index)
    fetched = _find_fetched(decision, slot, pages)
    if fetched is not None or _has_brought_page(decision, slot, pages):
        item = build_draft(slot, index=index, role=role, page=None, carries=fetched)
        decision.emit(item.event, item.payload)
        return
    ends = _find_ended_exchange(decision.state, role)
    if ends is not None:
        working_set.settle_exchange(decision)
    tools = None
    if slot.tools and prerequisites.should_note_tools(decision.paging):
        tools = [pages.digest(name) for name in slot.tools]
    _append_page(decision, slot, index=index, role=role, ends=ends, tools=tools)


def _append_page(
    decision: Decision,
    slot: NewSlot,
    *,
    index: int,
    role: Role | None,
    ends: int | None,
    tools: list[str] | None,
) -> None:
    page_id, cost = build_slot_page_id(index), slot.cost or slot.tokens
    own = _build_precedence(index, role)
    mapped = _make_room_whole(decision, cost, own, index=index, role=role)
    page = SlotPage(
        type=choose_slot_type(role),
        modality=slot.modality,
        importance=choose_slot_importance(role),
        cost=cost,
        mapped=mapped,
        displaced=None if mapped else decision.take_displaced(),
        ends=ends,
        asks=bool(slot.own_calls),
    )
    item = build_draft(slot, index=index, role=role, page=page, tools=tools)
    decision.emit(item.event, item.payload)
    decision.note_hot_page(page_id)
    if not mapped:
        _map_smaller(decision, decision.paging.hot[page_id].entry, slot, own)
    elif cost > pins.compute_largest(decision.paging, page_id):
        # The page is too large to stay at FULL once its exchange is over.
        _make_levels(decision, decision.paging.frames[page_id].entry, slot)


def _make_room_whole(
    decision: Decision, cost: int, own: Precedence, *, index: int, role: Role | None
) -> bool:
    """Make room for a message as it was said; False when there is none for it."""
    if not decision.paging.settings.map_slots:
        return False
    if groups.is_orphan_result(decision.paging, index, role):
        return False
    return working_set.make_room(decision, build_slot_page_id(index), cost, own=own)


def _choose_cause(decision: Decision, entry: PageEntry, slot: NewSlot) -> Cause:
    """Choose the cause of mapping a slot that could not be mapped as it was said.

    Calls in part, or results without calls, are no messages: memory brings these slots.
    """
    apart = groups.is_orphan_result(decision.paging, entry.slot or 0, entry.role)
    return "brought" if apart or slot.calls else "append"


def _make_levels(decision: Decision, entry: PageEntry, slot: NewSlot) -> None:
    made = _build_levels(entry, slot, tokenizer=decision.paging.settings.tokenizer)
    working_set.write_made_levels(decision, PageLookup(entry, None, None), made)


def _build_precedence(index: int, role: str | None) -> Precedence:
    """Build the precedence of a slot that is the newest of its exchange."""
    if role == "user":
        return USER
    return Precedence(Rank.MESSAGE, -index)


def _find_ended_exchange(state: ThreadState, role: str | None) -> int | None:
    """Return the start of the exchange that a slot of that role ends; None if none."""
    paging = state.paging
    if role != "user" and paging.last_user is not None:
        return None
    return paging.find_exchange_begin(state.slot_count)


def require_room(state: ThreadState, added: int) -> None:
    """Raise ThreadFullError unless `added` more slots fit."""
    # Refuse rather than drop the oldest slot: memory leaves only on request.
    if state.slot_count + added > state.max_slots:
        raise ThreadFullError(max_slots=state.max_slots)


def _map_smaller(
    decision: Decision, entry: PageEntry, slot: NewSlot, own: Precedence
) -> None:
    """Map a slot as faithfully as it fits, after making its lower levels."""
    settings, page_id = decision.paging.settings, entry.page_id
    # The user's message must be shown when a turn begins, mapped until then or not.
    if not settings.map_slots and entry.role != "user":
        return
    found, cause = PageLookup(entry, None, None), _choose_cause(decision, entry, slot)
    whole = working_set.weigh(decision, entry, FULL, cause=cause)
    if not working_set.can_weigh(decision, page_id, whole, own):
        made = _build_levels(entry, slot, tokenizer=settings.tokenizer)
        found = working_set.write_made_levels(decision, found, made)
    if settings.map_slots:
        fits = working_set.map_entry(decision, found.live, FULL, cause=cause, own=own)
    else:
        level = working_set.find_fitting_level(
            decision, found.live, FULL, own=own, cause=cause
        )
        fits = level is not None
    if not fits and entry.role == "user":
        raise NoRoomError


def _build_levels(entry: PageEntry, slot: NewSlot, *, tokenizer: str) -> MadeLevels:
    """Build the levels of a slot that is too large to be mapped whole."""
    if slot.made is not None:
        return replace(slot.made, page_id=entry.page_id)
    opened = OpenedPage(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        content=strict_json.parse_stored(slot.content),
        role=entry.role,
        slot=entry.slot,
    )
    count = making.build_counter(opened, tokens=slot.tokens, tokenizer=tokenizer)
    return making.make_levels(
        opened, version=entry.version, tokens=slot.tokens, count=count
    )


def get_role(slot: NewSlot) -> Role | None:
    """Return the role as sent, else the role of a `chat.<role>` type."""
    return slot.role or _CHAT_ROLES.get(slot.type)


def _find_fetched(
    decision: Decision, slot: NewSlot, pages: PageTable
) -> CarriedPage | None:
    """Return the page fetched by the call of ours that the slot answers, if any."""
    calls = decision.paging.calls
    if slot.answers is None or not calls:
        return None
    found = dict(calls).get(pages.digest(slot.answers))
    if found is None:
        return None
    page_id, place = found
    return CarriedPage(page_id, build_place_body(place, decision.state.id))


def _has_brought_page(decision: Decision, slot: NewSlot, pages: PageTable) -> bool:
    """Return whether the slot only calls our tools, and a call has brought a page.

    A slot with reasoning stays a message of its own: the reasoning stands beside the
    page.
    """
    if slot.thinks:
        return False
    calls = {call for call, _ in decision.paging.calls}
    return bool(calls) and any(pages.digest(each) in calls for each in slot.own_calls)


def build_draft(
    slot: NewSlot,
    *,
    index: int,
    role: Role | None,
    page: SlotPage | None,
    carries: CarriedPage | None = None,
    tools: list[str] | None = None,
) -> EventDraft:
    """Build the event and sealed payload of a slot at `index`."""
    handler = slot.handler
    own_name = handler.own_name if handler else None
    self_call = handler.is_self_call if handler else None
    if own_name is not None and self_call is None:
        self_call = slot.from_name == own_name
    event = SlotAppended(
        index=index,
        from_name=slot.from_name,
        to_name=slot.to_name,
        type=slot.type,
        role=role,
        own_name=own_name,
        tokens=slot.tokens,
        bytes=len(slot.content),
        page=page,
        carries=carries.page_id if carries else None,
        source=carries.source if carries else None,
        tools=tools,
    )
    return EventDraft(event=event, payload=_build_payload(slot, is_self_call=self_call))


def _build_payload(slot: NewSlot, *, is_self_call: bool | None) -> bytes:
    """Build one JSON object; `content` stands there byte for byte as it was sent."""
    texts: dict[str, Any] = {}
    if slot.handler and slot.handler.usage_instructions:
        texts["usage_instructions"] = slot.handler.usage_instructions
    if slot.handler and slot.handler.todo_nudge:
        texts["todo_nudge"] = slot.handler.todo_nudge
    if is_self_call is not None:
        texts["is_self_call"] = is_self_call
    if slot.agent_at is not None:
        texts["agent_at"] = slot.agent_at.isoformat()
    rest = strict_json.dump_stored(texts)[1:] if texts else b"}"
    return b'{"content":' + slot.content + (b"," if texts else b"") + rest


def parse_agent_time(payload: Mapping[str, Any]) -> datetime | None:
    """Return the agent's own time in the payload of a slot or another event."""
    text = payload.get("agent_at")
    return datetime.fromisoformat(text) if text else None


def compute_occurred(agent_at: datetime | None, at: datetime) -> datetime:
    """Return when a record happened: at its agent's time, but never after `at`."""
    return at if agent_at is None else min(agent_at, at)


def apply_slot_appended(state: ThreadState, event: SlotAppended) -> ThreadState:
    return state._replace(
        slot_count=event.index + 1,
        token_count=state.token_count + event.tokens,
        byte_count=state.byte_count + event.bytes,
        types=count_name(state.types, event.type),
        senders=count_name(state.senders, event.from_name),
        paging=_register_slot_page(state, event),
    )


def _register_slot_page(state: ThreadState, event: SlotAppended) -> Paging:
    page = event.page
    if page is None:
        return state.paging
    paging = residency.register_page(
        state,
        build_slot_entry(state, event, page),
        mapped=page.mapped,
        displaced=page.displaced,
    )
    if page.ends is not None:
        slots = range(page.ends, event.index)
        paging = _mark_joined(paging, slots, clock=state.clock + 1)
        paging = paging._replace(asking=())
    if event.tools:
        paging = prerequisites.credit_tools(paging, event.tools)
    if page.asks:
        paging = paging._replace(asking=(*paging.asking, event.index))
    if event.role != "user":
        return paging
    return paging._replace(
        last_user=UserSlot(event.index, state.clock + 1),
        users_since_turn=paging.users_since_turn + 1,
    )


def _mark_joined(paging: Paging, slots: range, *, clock: int) -> Paging:
    """Mark the mapped messages of an exchange as joined to the context."""
    frames = paging.frames
    for page_id in map(build_slot_page_id, slots):
        if (frame := frames.get(page_id)) is not None:
            frames = frames.insert(page_id, frame._replace(joined_seq=clock))
    return paging._replace(frames=frames)


def build_slot_entry(
    state: ThreadState, event: SlotAppended, page: SlotPage
) -> PageEntry:
    """Build the page-table entry of a slot that is appended to this state."""
    place = Location(state.id, state.seq + 1, 0)
    return PageEntry(
        page_id=build_slot_page_id(event.index),
        version=1,
        type=page.type,
        modality=page.modality,
        importance=page.importance,
        created_seq=state.clock + 1,
        created_turn=state.turn_count,
        levels=(LevelEntry(place, event.tokens, page.cost), None, None, None),
        role=event.role,
        slot=event.index,
    )


PART = KernelPart(
    commands={AppendSlots: decide_append_slots},
    events={SlotAppended: apply_slot_appended},
)
