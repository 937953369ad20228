"""A story in which a refund is promised, its page is evicted, and it is denied."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.page_commands import FaultPage
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.paged import PROSE, ask, build_message, do, list_evicted_pages

QUESTION = "Remind me, what did you promise to refund for the cancelled flight?"
PROMISE = "I promise you a refund of EUR 132.00, seats and bags in full."
DENIAL = "I am afraid nothing is refunded for the cancelled flight."
#: The turn that denies the promise, and the page of the promise.
DENIED, PROMISED = 6, "slot-1"


def make_denial(agent: Agent, name: str = "refund", *, user_id: str = "ann") -> Thread:
    """Make six exchanges; after the denial the model fetches the promise."""
    # 3,200 tokens may be mapped; pages return only when fetched, never by recall.
    budget: dict[str, Any] = {
        "budget_tokens": 4_000,
        "reserved_tokens": 800,
        "recall": "off",
    }
    factories.make_thread(agent, name, user_id=user_id, auto_pin_turns=1, **budget)
    ask(agent, name, "Our flight was cancelled. We paid for seats and bags.")
    say(agent, name, PROMISE)
    for n in range(DENIED - 2):
        ask(agent, name, f"Is there another flight, number {n}?")
        found = build_message("tool", f"Flights of day {n}. " + PROSE * 40)
        do(agent, name, AppendSlots(slots=(found,)))
        say(agent, name, f"There is one, number {n}.")
    ask(agent, name, QUESTION)
    say(agent, name, DENIAL)
    ask(agent, name, "That is not what you told me this morning.")
    do(agent, name, FaultPage(page_id=PROMISED, level=0))
    say(agent, name, "You are right: EUR 132.00.")
    return factories.get_thread(agent, name)


def make_refusal(agent: Agent, name: str) -> Thread:
    """Make the story end with a refused fetch, and a turn after it."""
    make_denial(agent, name)
    for page_id in list_evicted_pages(agent, name)[:4]:
        do(agent, name, FaultPage(page_id=page_id, level=0))
    ask(agent, name, "And what of the seats?")
    return factories.get_thread(agent, name)


def say(agent: Agent, name: str, text: str) -> None:
    """Append an answer of the model."""
    do(agent, name, AppendSlots(slots=(build_message("assistant", text),)))
