"""Checkpoints of working memory: take, restore, delete."""

from __future__ import annotations

from memoryhub.journal import KeyedRequest, OrderReceipt
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


async def take_checkpoint(
    *,
    agent: Agent,
    thread: str,
    command: TakeCheckpoint,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Take a checkpoint of working memory; an unknown thread name creates the thread.

    Emits checkpoint.taken. Raises NameTakenError, CheckpointsFullError, StaleError.
    """
    description = command.description
    return await working_memory.submit_command(
        agent=agent,
        thread=thread,
        command=command,
        texts=[] if description is None else [description],
        if_match=if_match,
        request=request,
        born=True,
    )


async def restore_checkpoint(
    *,
    agent: Agent,
    thread: str,
    target: Target,
    parts: tuple[str, ...] = RESTORED,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Restore parts of working memory from a checkpoint, by its number or name.

    Emits checkpoint.restored, after checkpoint.taken for the present state, or nothing
    if nothing differs. Raises CheckpointUnknownError, PinBudgetError, StaleError.
    """
    row = await read(threads.get_thread, agent.project, thread, bound=agent.bound)
    command = RestoreCheckpoint(target=to_clock(row, target), parts=parts)
    return await working_memory.submit_command(
        agent=agent, thread=thread, command=command, if_match=if_match, request=request
    )


async def delete_checkpoint(
    *, agent: Agent, thread: str, target: Target, if_match: int | None = None
) -> OrderReceipt:
    """Delete a checkpoint and nothing else. Emits checkpoint.deleted, or nothing.

    Raises StaleError.
    """
    row = await read(threads.get_thread, agent.project, thread, bound=agent.bound)
    command = DeleteCheckpoint(target=to_clock(row, target))
    return await working_memory.submit_command(
        agent=agent, thread=thread, command=command, if_match=if_match
    )


def to_clock(thread: Thread, target: Target) -> Target:
    """Convert a target to its form in commands; inherited ones have numbers up to 0."""
    if isinstance(target, str):
        return target
    return target + checkpoints.count_inherited_clock(thread)
