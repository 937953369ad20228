"""Checkpoints of working memory: taken, restored, deleted."""

from __future__ import annotations

from memoryhub.journal import Receipt, Request
from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
    RestoreCheckpoint,
    TakeCheckpoint,
)
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory

Target = int | str


async def take(
    *,
    agent: Agent,
    thread: str,
    command: TakeCheckpoint,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Keep what is now; a new name makes the thread.

    Emits checkpoint.taken. Raises NameTakenError, CheckpointsFullError, StaleError.
    """
    description = command.description
    return await working_memory.submit(
        agent=agent,
        thread=thread,
        command=command,
        texts=[] if description is None else [description],
        if_match=if_match,
        request=request,
        born=True,
    )


async def restore(
    *,
    agent: Agent,
    thread: str,
    target: Target,
    parts: tuple[str, ...] = RESTORED,
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    """Make parts what they were at a checkpoint, by its number or name.

    Emits checkpoint.restored, after checkpoint.taken for what was, or nothing if
    nothing differs. Raises CheckpointUnknownError, PinBudgetError, StaleError.
    """
    row = await read(threads.get_thread, agent.project, thread, bound=agent.bound)
    command = RestoreCheckpoint(target=clock(row, target), parts=parts)
    return await working_memory.submit(
        agent=agent, thread=thread, command=command, if_match=if_match, request=request
    )


async def delete(
    *, agent: Agent, thread: str, target: Target, if_match: int | None = None
) -> Receipt:
    """Delete a checkpoint and nothing else. Emits checkpoint.deleted, or nothing.

    Raises StaleError.
    """
    row = await read(threads.get_thread, agent.project, thread, bound=agent.bound)
    command = DeleteCheckpoint(target=clock(row, target))
    return await working_memory.submit(
        agent=agent, thread=thread, command=command, if_match=if_match
    )


def clock(thread: Thread, target: Target) -> Target:
    """A checkpoint as commands name it; what a fork inherits has numbers up to 0."""
    if isinstance(target, str):
        return target
    return target + checkpoints.inherited_clock(thread)
