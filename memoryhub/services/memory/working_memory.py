"""What writes to working memory have in common: address, conditions, weight."""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub import journal
from memoryhub.journal import Address, Order, Receipt, Request
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent


async def submit(
    *,
    agent: Agent,
    thread: str,
    command: MemoryCommand | SetTools,
    texts: Sequence[bytes] = (),
    if_match: int | None = None,
    request: Request | None = None,
    born: bool = False,
) -> Receipt:
    """Have an agent's command done. `texts` are what waits in the queue with it.

    `born`: a name that is new makes the thread. Raises what the command does.
    """
    return await journal.submit(
        Order(
            address=agent.address(thread, birth=agent.birth() if born else None),
            command=command,
            actor=agent.actor,
            if_match=if_match,
            request=request,
            size=sum(map(len, texts)),
        )
    )


def perform(
    thread: Thread,
    command: MemoryCommand,
    *,
    actor: str,
    if_match: int | None = None,
    epoch: int | None = None,
) -> Receipt:
    """Have a command of an operator or worker done. Raises what the command does.

    `epoch` is the subject's in which texts were read that the command was made of.
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
