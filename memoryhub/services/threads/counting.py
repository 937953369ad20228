"""Counting: what is written is counted as its thread counts.

Whoever writes counts by est/1, since that costs next to nothing; a thread of another
tokenizer refuses it, and what its agent has not counted is counted anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from memoryhub import journal
from memoryhub.errors import TokensRequiredError
from memoryhub.journal import Order, Receipt
from memoryhub.kernel.commands import AppendSlots, Command
from memoryhub.kernel.levels.tokens import Tokenizer
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.threads import measuring
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.threads.readers import read

#: The command as a tokenizer counts it; pages beyond so many tokens need their levels.
Recount = Callable[[Tokenizer, float], Command]
Slots = TypeVar("Slots", AppendSlots, BeginTurn)


async def submit(order: Order, recount: Recount) -> Receipt:
    """Submit the order, counted anew where its thread wants that.

    Looking up first how a thread counts would cost every thread of est/1 a query; this
    costs the others a refusal. Raises TokensRequiredError for a tokenizer that is not
    run here, and what the command raises.
    """
    try:
        return await journal.submit(order)
    except TokensRequiredError as refusal:
        command = await read(_recounted, refusal, recount)
        if command is None:
            raise
    return await journal.submit(replace(order, command=command))


def with_slots(command: Slots, tokenizer: Tokenizer, largest: float) -> Slots:
    """Return the command, its messages counted by this tokenizer."""
    slots = [
        measuring.recounted(slot, tokenizer, largest=largest) for slot in command.slots
    ]
    return replace(command, slots=tuple(slots))


def _recounted(refusal: TokensRequiredError, recount: Recount) -> Command | None:
    tokenizer = tokenizers.find(refusal.tokenizer)
    return None if tokenizer is None else recount(tokenizer, refusal.largest)
