"""Slots: messages appended to threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from memoryhub.errors import NoRoomError
from memoryhub.journal import Address, KeyedRequest, Order, OrderReceipt, submit
from memoryhub.kernel.commands import AppendSlots, NewSlot, StrikeSlots
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PagesCited
from memoryhub.kernel.text import citations
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import extraction
from memoryhub.services.threads import counting


async def append(
    *,
    agent: Agent,
    thread: str,
    slots: Sequence[NewSlot],
    subject: UUID | None = None,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Append messages in order, creating the thread when its name is new.

    With `subject`, append to a thread of that subject only: others are not found, and a
    new thread is the subject's own.

    Emits slot.appended per message, after thread.created for a new thread, and the
    evictions that make room. Raises ThreadFullError, ThreadClosedError, NoRoomError,
    TokensRequiredError, SubjectErasedError or QueueFullError; after any of these errors
    nothing has changed. No query of its own: the writer's state is warm.
    """
    command = AppendSlots(slots=tuple(slots))
    order = Order(
        address=_build_address(agent, thread, subject),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        request=request,
        size=sum(_measure_size(slot) for slot in slots),
    )
    recount = partial(counting.recount_slots, command)
    try:
        return await counting.submit(order, recount)
    except NoRoomError:
        if not await extraction.relieve_log(agent.project, thread, agent.bound):
            raise
    return await counting.submit(order, recount)


def list_unknown_refs(
    receipt: OrderReceipt, slots: Sequence[NewSlot]
) -> list[list[str]]:
    """List, for each appended message, the ids that it cites and that name no page.

    Events only count these ids. A repeated request has them once more.
    """
    cited: dict[int, Collection[str]] = {
        each.event.slot: each.event.page_ids
        for each in receipt.events
        if isinstance(each.event, PagesCited)
    }
    made = (each.event for each in receipt.events)
    indexes = [event.index for event in made if isinstance(event, SlotAppended)]
    return [
        citations.list_unknown(slot.cites, cited[index]) if index in cited else []
        for slot, index in zip(slots, indexes, strict=True)
    ]


async def strike(
    *,
    agent: Agent,
    thread: str,
    indexes: Collection[int],
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Strike messages out: requests, lists and searches leave them out from now on.

    Their texts stay, for the past and for an erasure. Emits slot.struck per message
    that was not struck before. Raises NotFoundError, SlotInheritedError or
    ThreadClosedError; after any of these errors nothing has changed.
    """
    order = Order(
        address=agent.address(thread),
        command=StrikeSlots(indexes=tuple(indexes)),
        actor=agent.actor,
        if_match=if_match,
        request=request,
    )
    return await submit(order)


def _build_address(agent: Agent, thread: str, subject: UUID | None) -> Address:
    """Build the thread's address, confined to the subject if one is given."""
    address = agent.address(thread, birth=agent.build_birth(subject))
    return address if subject is None else replace(address, bound=subject)


def _measure_size(slot: NewSlot) -> int:
    """Measure the bytes of text that wait in the queue with the message."""
    handler = slot.handler
    texts = (handler.usage_instructions, handler.todo_nudge) if handler else ()
    return len(slot.content) + sum(len(text.encode()) for text in texts)
