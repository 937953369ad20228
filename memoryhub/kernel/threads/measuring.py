"""What a message or page weighs before it is written. Pure; one pass over the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.formats.transcripts import Message
from memoryhub.kernel.levels import (
    costs,
    exchange,
    lines,
    making,
    message_shapes,
    tokens,
)
from memoryhub.kernel.levels.opened import Opened, body, slot_modality
from memoryhub.kernel.levels.tokens import Tokenizer
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

    Some APIs have the user say what tools have brought: its role is the tool's.
    """
    if role_of(slot) in (None, "user") and (role := message_shapes.role(content)):
        slot = replace(slot, role=role)
    opened = _slot_page(slot, content)
    cost = scaled(costs.cost(opened), opened, tokens=slot.tokens)
    return replace(
        slot,
        cost=cost,
        modality=opened.modality,
        calls=exchange.calls_tools(opened),
        own_calls=exchange.calls_only_ours(opened),
        answers=exchange.answered_call(opened),
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
        tokens=tokenizer.count(tokens.text_of(message.content)),
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
    counted = count(_text(opened))
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
        counted = tokenizer.count(_text(opened))
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
    return tokens.estimate(_text(opened))


def _text(opened: Opened) -> str:
    if opened.modality not in ("text", "structured"):
        # A model is shown its line, whatever bytes stand behind that.
        return lines.line(opened)
    found = body(opened, level=FULL)
    return found if isinstance(found, str) else tokens.text_of(found)
