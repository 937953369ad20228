"""What a message or page weighs before it is written. Pure; one pass over the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from memoryhub.kernel import costs, tokens
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.opened import Opened, body, slot_modality
from memoryhub.kernel.pages import FULL, Modality, slot_page_id, slot_type
from memoryhub.kernel.slots import role_of

#: Stands for an index that is not known yet; a longer one is found out by packing.
_INDEX = 999_999


class Measured(NamedTuple):
    tokens: int
    #: Of its line, or its message, in a request.
    cost: int
    modality: Modality


def of_slot(slot: NewSlot, content: Any) -> NewSlot:
    """The slot with its cost and modality; its tokens stay as they were counted."""
    role = role_of(slot)
    opened = Opened(
        page_id=slot_page_id(_INDEX),
        type=slot_type(role),
        modality=slot_modality(content),
        content=content,
        role=role,
        slot=_INDEX,
    )
    cost = scaled(costs.cost(opened), opened, tokens=slot.tokens)
    return replace(slot, cost=cost, modality=opened.modality)


def of_page(opened: Opened, *, sent: int | None) -> Measured:
    """A page at FULL; `sent` are its tokens by a tokenizer of its agent's."""
    counted = tokens.estimate(_text(opened)) if sent is None else sent
    cost = costs.cost(opened)
    if sent is not None:
        cost = scaled(cost, opened, tokens=sent)
    return Measured(counted, cost, opened.modality)


def scaled(cost: int, opened: Opened, *, tokens: int) -> int:
    """A cost by est/1, in the tokens that the agent counts in, rounded up."""
    estimated = estimate_of(opened)
    if tokens == estimated or not estimated:
        return max(cost, tokens)
    return -(-cost * tokens // estimated)


def estimate_of(opened: Opened) -> int:
    """Tokens of a page at FULL by est/1."""
    return tokens.estimate(_text(opened))


def _text(opened: Opened) -> str:
    found = body(opened, level=FULL)
    return found if isinstance(found, str) else tokens.text_of(found)
