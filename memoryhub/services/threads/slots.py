"""Slots: messages appended to threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memoryhub.journal import Order, Receipt, Request
from memoryhub.kernel.commands import AppendSlots, NewSlot
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import counting


async def append(
    *,
    agent: Agent,
    thread: str,
    slots: Sequence[NewSlot],
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Append messages in order, creating the thread when its name is new.

    Emits slot.appended per message, after thread.created for a new thread, and what
    leaves the working set for it. Raises ThreadFullError, ThreadClosedError,
    NoRoomError, TokensRequiredError, SubjectErasedError or QueueFullError; after any of
    them nothing has changed. No query of its own: the writer's state is warm.
    """
    command = AppendSlots(slots=tuple(slots))
    order = Order(
        address=agent.address(thread, birth=agent.birth()),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        request=request,
        size=sum(_weight(slot) for slot in slots),
    )
    return await counting.submit(order, partial(counting.with_slots, command))


def _weight(slot: NewSlot) -> int:
    """Bytes of all text that waits in the queue with the message."""
    told = slot.handler
    texts = (told.usage_instructions, told.todo_nudge) if told else ()
    return len(slot.content) + sum(len(text.encode()) for text in texts)
