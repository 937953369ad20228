"""Slots: a thread's messages, numbered densely and never changed.

Pure. `append` decides, `appended` folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from memoryhub.errors import NoRoomError, ThreadFullError
from memoryhub.kernel.commands import AppendSlots, Draft, MadeLevels, NewSlot
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.levels import making
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.messages.reading import ROLES
from memoryhub.kernel.paging import (
    groups,
    pins,
    prerequisites,
    residency,
    working_set,
)
from memoryhub.kernel.paging.entries import place_body
from memoryhub.kernel.paging.lookups import Found
from memoryhub.kernel.paging.precedence import USER, Precedence, Rank
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state.events import Role, SlotAppended
from memoryhub.kernel.state.page_events import Cause, PlaceBody, SlotPage
from memoryhub.kernel.state.pages import (
    FULL,
    Entry,
    LevelEntry,
    Location,
    slot_importance,
    slot_page_id,
    slot_type,
)
from memoryhub.kernel.state.paging import Paging, UserSlot
from memoryhub.kernel.state.state import ThreadState, count
from memoryhub.kernel.text import strict_json


class Carried(NamedTuple):
    """A page that a tool's message brings, and where its text lies."""

    page_id: str
    source: PlaceBody


_CHAT_ROLES = {f"chat.{name}": role for name, role in ROLES.items()}


def append(decision: Decision, command: AppendSlots, pages: PageTable) -> None:
    """Number each new slot and give it its page.

    Emits slot.appended per slot, each after what leaves the working set for it; all or
    none. Raises ThreadFullError when the batch does not fit below `max_slots`, and
    NoRoomError for a message of the user that fits into the context at no level.
    """
    append_each(decision, command.slots, pages)


def append_each(decision: Decision, new: Sequence[NewSlot], pages: PageTable) -> None:
    """Append these, in order, to a thread that takes them."""
    require_room(decision.state, len(new))
    for slot in new:
        append_one(decision, slot, pages)


def append_one(decision: Decision, slot: NewSlot, pages: PageTable) -> None:
    """Append a slot; its page is mapped at FULL if that fits, else as it best does.

    What asks for a page, or brings it, is none: the page itself is shown in its place.
    """
    decision.paging.settings.require_tokens(slot.counted_by)
    index, role = decision.state.slot_count, role_of(slot)
    fetched = _fetched(decision, slot, pages)
    if fetched is not None or _brought(decision, slot, pages):
        item = draft(slot, index=index, role=role, page=None, carries=fetched)
        decision.emit(item.event, item.payload)
        return
    ends = _ended(decision.state, role)
    if ends is not None:
        working_set.settle(decision)
    tools = None
    if slot.tools and prerequisites.worth_noting(decision.paging):
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
    page_id, cost = slot_page_id(index), slot.cost or slot.tokens
    own = _precedence(index, role)
    mapped = _stands_whole(decision, cost, own, index=index, role=role)
    page = SlotPage(
        type=slot_type(role),
        modality=slot.modality,
        importance=slot_importance(role),
        cost=cost,
        mapped=mapped,
        displaced=None if mapped else decision.displaced(),
        ends=ends,
        asks=bool(slot.own_calls),
    )
    item = draft(slot, index=index, role=role, page=page, tools=tools)
    decision.emit(item.event, item.payload)
    decision.cooled(page_id)
    if not mapped:
        _map_smaller(decision, decision.paging.hot[page_id].entry, slot, own)
    elif cost > pins.largest(decision.paging, page_id):
        # It is too large to stay so once its exchange is over.
        _make_levels(decision, decision.paging.frames[page_id].entry, slot)


def _stands_whole(
    decision: Decision, cost: int, own: Precedence, *, index: int, role: Role | None
) -> bool:
    """Make room for a message as it was said; False when there is none for it."""
    if not decision.paging.settings.map_slots:
        return False
    if groups.lacks_calls(decision.paging, index, role):
        return False
    return working_set.make_room(decision, slot_page_id(index), cost, own=own)


def _cause(decision: Decision, entry: Entry, slot: NewSlot) -> Cause:
    """Say why a slot is mapped that could not be mapped as it was said.

    Calls in part, or results without them, are no messages: memory brings them.
    """
    apart = groups.lacks_calls(decision.paging, entry.slot or 0, entry.role)
    return "brought" if apart or slot.calls else "append"


def _make_levels(decision: Decision, entry: Entry, slot: NewSlot) -> None:
    made = _made(entry, slot, tokenizer=decision.paging.settings.tokenizer)
    working_set.write_made(decision, Found(entry, None, None), made)


def _precedence(index: int, role: str | None) -> Precedence:
    """Of a slot that is the newest one of its exchange."""
    if role == "user":
        return USER
    return Precedence(Rank.MESSAGE, -index)


def _ended(state: ThreadState, role: str | None) -> int | None:
    """Where the exchange began that a slot of that role ends; None if it ends none."""
    paging = state.paging
    if role != "user" and paging.last_user is not None:
        return None
    return paging.exchange(state.slot_count)


def require_room(state: ThreadState, added: int) -> None:
    """Raise unless `added` more slots fit."""
    # Refuse rather than drop the oldest: memory leaves only when asked to.
    if state.slot_count + added > state.max_slots:
        raise ThreadFullError(max_slots=state.max_slots)


def _map_smaller(
    decision: Decision, entry: Entry, slot: NewSlot, own: Precedence
) -> None:
    """Map a slot as faithfully as it fits, having made its lower levels."""
    settings, page_id = decision.paging.settings, entry.page_id
    # What the user said has to be shown when a turn begins, mapped until then or not.
    if not settings.map_slots and entry.role != "user":
        return
    found, cause = Found(entry, None, None), _cause(decision, entry, slot)
    whole = working_set.weigh(decision, entry, FULL, cause=cause)
    if not working_set.allows(decision, page_id, whole, own):
        made = _made(entry, slot, tokenizer=settings.tokenizer)
        found = working_set.write_made(decision, found, made)
    if settings.map_slots:
        fits = working_set.map_entry(decision, found.live, FULL, cause=cause, own=own)
    else:
        level = working_set.fitting(decision, found.live, FULL, own=own, cause=cause)
        fits = level is not None
    if not fits and entry.role == "user":
        raise NoRoomError


def _made(entry: Entry, slot: NewSlot, *, tokenizer: str) -> MadeLevels:
    """The levels of a slot that is too large to be mapped whole."""
    if slot.made is not None:
        return replace(slot.made, page_id=entry.page_id)
    opened = Opened(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        content=strict_json.kept(slot.content),
        role=entry.role,
        slot=entry.slot,
    )
    count = making.counting(opened, tokens=slot.tokens, tokenizer=tokenizer)
    return making.made_of(
        opened, version=entry.version, tokens=slot.tokens, count=count
    )


def role_of(slot: NewSlot) -> Role | None:
    """Return the role as sent, else that of a `chat.<role>` type."""
    return slot.role or _CHAT_ROLES.get(slot.type)


def _fetched(decision: Decision, slot: NewSlot, pages: PageTable) -> Carried | None:
    """What the call has brought that the slot answers, if it was one of ours."""
    calls = decision.paging.calls
    if slot.answers is None or not calls:
        return None
    found = dict(calls).get(pages.digest(slot.answers))
    if found is None:
        return None
    page_id, place = found
    return Carried(page_id, place_body(place, decision.state.id))


def _brought(decision: Decision, slot: NewSlot, pages: PageTable) -> bool:
    """Whether it only made calls of ours, and one of them has brought a page.

    What it thought before stands beside that page: then it is one itself.
    """
    if slot.thinks:
        return False
    calls = {call for call, _ in decision.paging.calls}
    return bool(calls) and any(pages.digest(each) in calls for each in slot.own_calls)


def draft(
    slot: NewSlot,
    *,
    index: int,
    role: Role | None,
    page: SlotPage | None,
    carries: Carried | None = None,
    tools: list[str] | None = None,
) -> Draft:
    """Return the event and sealed payload of a slot at `index`."""
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
    return Draft(event=event, payload=_payload(slot, is_self_call=self_call))


def _payload(slot: NewSlot, *, is_self_call: bool | None) -> bytes:
    """One JSON object; `content` stands in it byte for byte as it was sent."""
    texts: dict[str, Any] = {}
    if slot.handler and slot.handler.usage_instructions:
        texts["usage_instructions"] = slot.handler.usage_instructions
    if slot.handler and slot.handler.todo_nudge:
        texts["todo_nudge"] = slot.handler.todo_nudge
    if is_self_call is not None:
        texts["is_self_call"] = is_self_call
    if slot.agent_at is not None:
        texts["agent_at"] = slot.agent_at.isoformat()
    rest = strict_json.as_sent(texts)[1:] if texts else b"}"
    return b'{"content":' + slot.content + (b"," if texts else b"") + rest


def agent_time(payload: Mapping[str, Any]) -> datetime | None:
    """Return when the agent says that it was, by the payload of a slot or another."""
    text = payload.get("agent_at")
    return datetime.fromisoformat(text) if text else None


def appended(state: ThreadState, event: SlotAppended) -> ThreadState:
    return state._replace(
        slot_count=event.index + 1,
        token_count=state.token_count + event.tokens,
        byte_count=state.byte_count + event.bytes,
        types=count(state.types, event.type),
        senders=count(state.senders, event.from_name),
        paging=_paged(state, event),
    )


def _paged(state: ThreadState, event: SlotAppended) -> Paging:
    page = event.page
    if page is None:
        return state.paging
    paging = residency.registered(
        state,
        slot_entry(state, event, page),
        mapped=page.mapped,
        displaced=page.displaced,
    )
    if page.ends is not None:
        slots = range(page.ends, event.index)
        paging = _joined(paging, slots, clock=state.clock + 1)
        paging = paging._replace(asking=())
    if event.tools:
        paging = prerequisites.called(paging, event.tools)
    if page.asks:
        paging = paging._replace(asking=(*paging.asking, event.index))
    if event.role != "user":
        return paging
    return paging._replace(
        last_user=UserSlot(event.index, state.clock + 1),
        users_since_turn=paging.users_since_turn + 1,
    )


def _joined(paging: Paging, slots: range, *, clock: int) -> Paging:
    """With the messages of an exchange in the context, as far as they are mapped."""
    frames = paging.frames
    for page_id in map(slot_page_id, slots):
        if (frame := frames.get(page_id)) is not None:
            frames = frames.insert(page_id, frame._replace(joined_seq=clock))
    return paging._replace(frames=frames)


def slot_entry(state: ThreadState, event: SlotAppended, page: SlotPage) -> Entry:
    """Return the page-table entry of a slot that is appended to this state."""
    place = Location(state.id, state.seq + 1, 0)
    return Entry(
        page_id=slot_page_id(event.index),
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


PART = Part(
    commands={AppendSlots: append},
    events={SlotAppended: appended},
)
