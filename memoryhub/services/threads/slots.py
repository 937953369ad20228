"""Slots: messages appended to threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from memoryhub.errors import NoRoomError
from memoryhub.journal import Address, Order, Receipt, Request
from memoryhub.kernel.commands import AppendSlots, NewSlot
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
    request: Request | None = None,
) -> Receipt:
    """Append messages in order, creating the thread when its name is new.

    With `subject` to a thread of that one: others are not found, a new one is its own.

    Emits slot.appended per message, after thread.created for a new thread, and what
    leaves the working set for it. Raises ThreadFullError, ThreadClosedError,
    NoRoomError, TokensRequiredError, SubjectErasedError or QueueFullError; after any of
    them nothing has changed. No query of its own: the writer's state is warm.
    """
    command = AppendSlots(slots=tuple(slots))
    order = Order(
        address=_address(agent, thread, subject),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        request=request,
        size=sum(_weight(slot) for slot in slots),
    )
    recount = partial(counting.with_slots, command)
    try:
        return await counting.submit(order, recount)
    except NoRoomError:
        if not await extraction.relieve(agent.project, thread, agent.bound):
            raise
    return await counting.submit(order, recount)


def _address(agent: Agent, thread: str, subject: UUID | None) -> Address:
    birth = agent.birth()
    if subject is None:
        return agent.address(thread, birth=birth)
    own = birth and replace(birth, subject=subject)
    return replace(agent.address(thread, birth=own), bound=subject)


def _weight(slot: NewSlot) -> int:
    """Bytes of all text that waits in the queue with the message."""
    handler = slot.handler
    texts = (handler.usage_instructions, handler.todo_nudge) if handler else ()
    return len(slot.content) + sum(len(text.encode()) for text in texts)
