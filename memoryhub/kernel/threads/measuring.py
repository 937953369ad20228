"""What a message or page weighs before it is written. Pure; one pass over the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.formats.transcripts import Message
from memoryhub.kernel.levels import (
    costs,
    lines,
    making,
    own_calls,
    tokens,
)
from memoryhub.kernel.levels.opened import (
    Opened,
    body,
    message_tokens,
    slot_modality,
)
from memoryhub.kernel.levels.tokens import Count, Tokenizer
from memoryhub.kernel.messages import reading, writing
from memoryhub.kernel.state.pages import FULL, Modality, slot_page_id, slot_type
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads.slots import role_of

#: Stands for an index that is not known yet; a longer one is found out by packing.
_INDEX = 999_999


class Measured(NamedTuple):
    tokens: int
    #: Of its line, or its message, in a request.
    cost: int
    modality: Modality
    #: The tokenizer; None: its agent counted.
    counted_by: str | None = None


def of_slot(slot: NewSlot, content: Any) -> NewSlot:
    """Return the slot with its cost and modality; its tokens stay as counted.

    Without one by its client the role is the message's own, but for the system's.
    """
    spoken, sent = reading.read(content), role_of(slot)
    if sent in (None, "user") and spoken.speaker == "tool":
        slot = replace(slot, role="tool")
    elif sent is None and spoken.role in ("user", "assistant"):
        slot = replace(slot, role=spoken.role)
    opened = _slot_page(slot, content)
    message = opened.message
    cost = scaled(costs.cost(opened), opened, tokens=slot.tokens)
    return replace(
        slot,
        cost=cost,
        modality=opened.modality,
        calls=bool(message.calls),
        tools=own_calls.others(message),
        own_calls=own_calls.ids_alone(message),
        answers=own_calls.answered(message),
        thinks=any(writing.signed(message, vendor) for vendor in writing.FORMATS),
    )


def of_message(
    message: Message, tokenizer: Tokenizer, *, counted_by: str | None = None
) -> NewSlot:
    """Return the slot of a transcript's message, counted by `tokenizer`.

    Without `counted_by` the count stands, whatever its thread counts by.
    """
    slot = NewSlot(
        from_name=message.from_name,
        to_name=message.to_name,
        type=message.type,
        content=message.text,
        tokens=content_tokens(message.content, tokenizer.count),
        counted_by=counted_by,
        role=message.role,
        agent_at=message.agent_at,
    )
    return of_slot(slot, message.content)


def recounted(slot: NewSlot, tokenizer: Tokenizer, *, largest: float) -> NewSlot:
    """Count the slot by `tokenizer`, unless its agent has counted.

    With its levels, if it costs more than `largest`.
    """
    if slot.counted_by is None:
        return slot
    opened, count = _slot_page(slot, strict_json.kept(slot.content)), tokenizer.count
    counted = _counted(opened, count)
    cost = max(costs.cost(opened, count=count), counted)
    made = making.made_of(opened, version=1, count=count) if cost > largest else None
    return replace(
        slot, tokens=counted, cost=cost, counted_by=tokenizer.name, made=made
    )


def of_page(
    opened: Opened, *, sent: int | None, tokenizer: Tokenizer = tokens.EST
) -> Measured:
    """Measure a page at FULL; `sent` are its tokens as its agent has counted them."""
    if sent is None:
        counted = _counted(opened, tokenizer.count)
        cost = costs.cost(opened, count=tokenizer.count)
        return Measured(counted, cost, opened.modality, tokenizer.name)
    cost = scaled(costs.cost(opened), opened, tokens=sent)
    return Measured(sent, cost, opened.modality)


def _slot_page(slot: NewSlot, content: Any) -> Opened:
    role = role_of(slot)
    return Opened(
        page_id=slot_page_id(_INDEX),
        type=slot_type(role),
        modality=slot_modality(content),
        content=content,
        role=role,
        slot=_INDEX,
    )


def scaled(cost: int, opened: Opened, *, tokens: int) -> int:
    """Scale a cost by est/1 to the tokens that the agent counts in, rounded up."""
    estimated = estimate_of(opened)
    if tokens == estimated or not estimated:
        return max(cost, tokens)
    return -(-cost * tokens // estimated)


def estimate_of(opened: Opened) -> int:
    """Estimate the tokens of a page at FULL by est/1."""
    return _counted(opened, tokens.estimate)


def content_tokens(content: Any, count: Count) -> int:
    """Count the tokens of what a slot's content says."""
    return message_tokens(reading.read(content), count)


def _counted(opened: Opened, count: Count) -> int:
    if opened.slot is not None:
        return message_tokens(opened.message, count)
    if opened.modality not in ("text", "structured"):
        # A model is shown its line, whatever bytes stand behind that.
        return count(lines.line(opened))
    found = body(opened, level=FULL)
    text = found if isinstance(found, str) else strict_json.as_sent(found).decode()
    return count(text)
