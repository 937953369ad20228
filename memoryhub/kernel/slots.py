"""Slots: a thread's messages, numbered densely and never changed.

Pure. `append` decides, `appended` folds.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub.errors import ThreadFullError
from memoryhub.kernel import strict_json
from memoryhub.kernel.commands import AppendSlots, Draft, NewSlot
from memoryhub.kernel.events import SlotAppended
from memoryhub.kernel.state import ThreadState, changed, count
from memoryhub.kernel.threads import require_open

_CHAT_ROLES = {f"chat.{role}": role for role in ("user", "assistant", "tool", "system")}


def append(state: ThreadState, command: AppendSlots) -> Iterator[Draft]:
    """Number each new slot. Emits slot.appended per slot, all or none.

    Raises ThreadFullError when the batch does not fit below `max_slots`.
    """
    require_open(state)
    require_room(state, len(command.slots))
    for index, slot in enumerate(command.slots, start=state.slot_count):
        yield draft(slot, index=index)


def require_room(state: ThreadState, added: int) -> None:
    """Raise unless `added` more slots fit."""
    # Refuse rather than drop the oldest: memory leaves only when asked to.
    if state.slot_count + added > state.max_slots:
        raise ThreadFullError(max_slots=state.max_slots)


def draft(slot: NewSlot, *, index: int) -> Draft:
    """The event and sealed payload of a slot at `index`."""
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
        role=slot.role or _CHAT_ROLES.get(slot.type),  # type: ignore[arg-type]  # closed words
        own_name=own_name,
        is_self_call=self_call,
        tokens=slot.tokens,
        bytes=len(slot.content),
        agent_at=slot.agent_at,
    )
    return Draft(event=event, payload=_payload(slot))


def _payload(slot: NewSlot) -> bytes:
    """One JSON object; `content` stands in it byte for byte as it was sent."""
    texts: dict[str, str] = {}
    if slot.handler and slot.handler.usage_instructions:
        texts["usage_instructions"] = slot.handler.usage_instructions
    if slot.handler and slot.handler.todo_nudge:
        texts["todo_nudge"] = slot.handler.todo_nudge
    rest = strict_json.as_sent(texts)[1:] if texts else b"}"
    return b'{"content":' + slot.content + (b"," if texts else b"") + rest


def appended(state: ThreadState, event: SlotAppended) -> ThreadState:
    return changed(
        state,
        slot_count=event.index + 1,
        token_count=state.token_count + event.tokens,
        byte_count=state.byte_count + event.bytes,
        types=count(state.types, event.type),
        senders=count(state.senders, event.from_name),
    )
