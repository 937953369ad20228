"""Token counts: content is counted with its thread's tokenizer.

Writers count by est/1, which costs next to nothing; a thread with another tokenizer
refuses that, and content not counted by the agent is counted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from memoryhub import journal
from memoryhub.errors import TokensRequiredError
from memoryhub.journal import Order, OrderReceipt
from memoryhub.kernel.commands import AppendSlots, Command
from memoryhub.kernel.context.tokens import Tokenizer
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.threads import measuring
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.threads.readers import read

#: Builds the command as a tokenizer counts it; pages beyond the given number of tokens
#: need their levels.
Recount = Callable[[Tokenizer, float], Command]
Slots = TypeVar("Slots", AppendSlots, BeginTurn)


async def submit(order: Order, recount: Recount) -> OrderReceipt:
    """Submit the order, recounted where its thread has another tokenizer.

    Looking up the tokenizer first would cost every thread of est/1 a query; this way
    other threads pay a refusal. Raises TokensRequiredError for a tokenizer that this
    server does not run, and what the command raises.
    """
    try:
        return await journal.submit(order)
    except TokensRequiredError as refusal:
        command = await read(_recount_command, refusal, recount)
        if command is None:
            raise
    return await journal.submit(replace(order, command=command))


def recount_slots(command: Slots, tokenizer: Tokenizer, largest: float) -> Slots:
    """Recount the command's messages with this tokenizer."""
    slots = [
        measuring.recount_slot(slot, tokenizer, largest=largest)
        for slot in command.slots
    ]
    return replace(command, slots=tuple(slots))


def _recount_command(refusal: TokensRequiredError, recount: Recount) -> Command | None:
    """Build the command with the thread's tokenizer; None if it is not run here."""
    tokenizer = tokenizers.find(refusal.tokenizer)
    return None if tokenizer is None else recount(tokenizer, refusal.largest)
