"""Writes to working memory: the address, conditions and size of their orders."""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub import journal
from memoryhub.journal import Address, KeyedRequest, Order, OrderReceipt
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent


async def submit_command(
    *,
    agent: Agent,
    thread: str,
    command: MemoryCommand | SetTools,
    texts: Sequence[bytes] = (),
    if_match: int | None = None,
    request: KeyedRequest | None = None,
    born: bool = False,
) -> OrderReceipt:
    """Submit an agent's command; `texts` are bytes that wait in the queue.

    With `born` an unknown name creates the thread. Raises what the command raises.
    """
    return await journal.submit(
        Order(
            address=agent.address(thread, birth=agent.build_birth() if born else None),
            command=command,
            actor=agent.actor,
            if_match=if_match,
            request=request,
            size=sum(map(len, texts)),
        )
    )


def perform_command(
    thread: Thread,
    command: MemoryCommand,
    *,
    actor: str,
    if_match: int | None = None,
    epoch: int | None = None,
) -> OrderReceipt:
    """Perform a command of an operator or worker. Raises what the command raises.

    `epoch` is the subject's epoch when the texts of the command were read.
    """
    return journal.perform(
        Order(
            address=Address(project=thread.project_id, name=thread.name),
            command=command,
            actor=actor,
            if_match=if_match,
            epoch=epoch,
        )
    )
