"""Recorded calls of own tools, and the pages that keep what the calls have taught."""

from __future__ import annotations

from dataclasses import replace

from memoryhub import journal
from memoryhub.errors import Refusal, StaleError
from memoryhub.journal import KeyedRequest, Order, OrderReceipt
from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.queries.replay import states
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import procedures
from memoryhub.services.access.api_keys import Agent


async def record_call(
    *,
    agent: Agent,
    thread: str,
    command: RecordCall,
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    """Record a call. An unknown name creates the thread.

    Emits call.recorded, and page.created or page.updated where a pattern changed. The
    page waits for a later call if records were erased while it was made.
    """
    order = Order(
        address=agent.address(thread, birth=agent.build_birth()),
        command=command,
        actor=agent.actor,
        if_match=if_match,
        request=request,
        size=len(command.build_payload()),
    )
    taught, epoch = await read(_add_procedure, agent, thread, command)
    if taught.procedure is None:
        return await journal.submit(order)
    size = order.size + len(taught.procedure.page.payload)
    try:
        return await journal.submit(
            replace(order, command=taught, size=size, epoch=epoch)
        )
    except StaleError:
        # An erasure, or If-Match, which refuses the call alone as well.
        return await journal.submit(order)


def _add_procedure(
    agent: Agent, thread: str, command: RecordCall
) -> tuple[RecordCall, int | None]:
    """Return the command with its page, and the subject's epoch as it was read."""
    try:
        row = threads.get_thread(agent.project, thread, bound=agent.bound)
    except Refusal:
        # A new thread, or one that refuses the call itself.
        return command, None
    taught = procedures.add_procedure(row, states.load_state(row), command)
    return taught, row.subject.epoch
