"""Measuring of messages and pages before they are written. Pure; one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.context import costs, lines, tokens
from memoryhub.kernel.context.opened import (
    OpenedPage,
    assign_role,
    choose_modality,
    count_message_tokens,
    get_body,
)
from memoryhub.kernel.context.tokens import Count, Tokenizer
from memoryhub.kernel.formats.transcripts import ImportedMessage
from memoryhub.kernel.levels import making
from memoryhub.kernel.messages import reading, words, writing
from memoryhub.kernel.messages.message import Message
from memoryhub.kernel.state.pages import (
    FULL,
    Modality,
    build_slot_page_id,
    choose_slot_type,
)
from memoryhub.kernel.text import citations, strict_json
from memoryhub.kernel.threads.slots import get_role
from memoryhub.kernel.tools import own_calls

#: Placeholder for an index not known yet; packing corrects a longer index.
_INDEX = 999_999


class PageMeasure(NamedTuple):
    tokens: int
    #: Cost of its line, or of its message, in a request.
    cost: int
    modality: Modality
    #: Name of the tokenizer; None: the agent counted.
    counted_by: str | None = None


def measure_slot(slot: NewSlot, content: Any, spoken: Message | None = None) -> NewSlot:
    """Return the slot with its cost and modality; its tokens stay as counted.

    Without a role from its client, the slot gets the message's own role, except system.
    Callers that have read the content give it as `spoken`.
    """
    spoken, sent = spoken or reading.read(content), get_role(slot)
    if sent in (None, "user") and spoken.speaker == "tool":
        slot = replace(slot, role="tool")
    elif sent is None and spoken.role in ("user", "assistant"):
        slot = replace(slot, role=spoken.role)
    opened = _build_slot_page(slot, content, spoken)
    message, cost = opened.message, costs.compute_cost(opened)
    if slot.counted_by == tokens.EST.name:
        # Counted as costs are: to count the text again for the scale finds the same.
        cost = max(cost, slot.tokens)
    else:
        cost = scale_cost(cost, opened, tokens=slot.tokens)
    return replace(
        slot,
        cost=cost,
        modality=opened.modality,
        calls=bool(message.calls),
        tools=own_calls.list_other_tools(message),
        own_calls=own_calls.list_lone_call_ids(message),
        answers=own_calls.get_answered_id(message),
        thinks=any(
            writing.list_signed_thoughts(message, vendor) for vendor in writing.FORMATS
        ),
        cites=list_cited_ids(slot, message),
    )


def list_cited_ids(slot: NewSlot, message: Message) -> tuple[str, ...]:
    """List the ids that a message of the model cites in its own words."""
    if citations.SIGN not in slot.content or get_role(slot) != "assistant":
        return ()
    return citations.list_cited_ids(words.render_parts(message))


def measure_message(
    message: ImportedMessage, tokenizer: Tokenizer, *, counted_by: str | None = None
) -> NewSlot:
    """Return the slot of a transcript's message, counted by `tokenizer`.

    Without `counted_by` the count stands, whatever tokenizer the thread counts by.
    """
    slot = NewSlot(
        from_name=message.from_name,
        to_name=message.to_name,
        type=message.type,
        content=message.text,
        tokens=count_message_tokens(message.spoken, tokenizer.count),
        counted_by=counted_by,
        role=message.role,
        agent_at=message.agent_at,
    )
    return measure_slot(slot, message.content, message.spoken)


def recount_slot(slot: NewSlot, tokenizer: Tokenizer, *, largest: float) -> NewSlot:
    """Count the slot by `tokenizer`, unless its agent has counted.

    Lower levels are made as well, if the slot costs more than `largest`.
    """
    if slot.counted_by is None:
        return slot
    content, count = strict_json.parse_stored(slot.content), tokenizer.count
    opened = _build_slot_page(slot, content, reading.read(content))
    counted = _count_page(opened, count)
    cost = max(costs.compute_cost(opened, count=count), counted)
    made = (
        making.make_levels(opened, version=1, count=count) if cost > largest else None
    )
    return replace(
        slot, tokens=counted, cost=cost, counted_by=tokenizer.name, made=made
    )


def measure_page(
    opened: OpenedPage, *, sent: int | None, tokenizer: Tokenizer = tokens.EST
) -> PageMeasure:
    """Measure a page at FULL; `sent` is the agent's own token count."""
    if sent is None:
        counted = _count_page(opened, tokenizer.count)
        cost = costs.compute_cost(opened, count=tokenizer.count)
        return PageMeasure(counted, cost, opened.modality, tokenizer.name)
    cost = scale_cost(costs.compute_cost(opened), opened, tokens=sent)
    return PageMeasure(sent, cost, opened.modality)


def _build_slot_page(slot: NewSlot, content: Any, spoken: Message) -> OpenedPage:
    """Build the page of a slot whose content was read as `spoken`."""
    role = get_role(slot)
    return OpenedPage(
        page_id=build_slot_page_id(_INDEX),
        type=choose_slot_type(role),
        modality=choose_modality(content, spoken),
        content=content,
        role=role,
        slot=_INDEX,
        read=[assign_role(spoken, role)],
    )


def scale_cost(cost: int, opened: OpenedPage, *, tokens: int) -> int:
    """Scale a cost by est/1 to the tokens that the agent counts in, rounded up."""
    estimated = estimate_tokens(opened)
    if tokens == estimated or not estimated:
        return max(cost, tokens)
    return -(-cost * tokens // estimated)


def estimate_tokens(opened: OpenedPage) -> int:
    """Estimate the tokens of a page at FULL by est/1."""
    return _count_page(opened, tokens.estimate_tokens)


def count_content_tokens(content: Any, count: Count) -> int:
    """Count the tokens of the text in a slot's content."""
    return count_message_tokens(reading.read(content), count)


def _count_page(opened: OpenedPage, count: Count) -> int:
    if opened.slot is not None:
        return count_message_tokens(opened.message, count)
    if opened.modality not in ("text", "structured"):
        # A model sees the line of a media page, whatever bytes stand behind that line.
        return count(lines.render_line(opened))
    found = get_body(opened, level=FULL)
    text = found if isinstance(found, str) else strict_json.dump_stored(found).decode()
    return count(text)
