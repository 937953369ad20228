"""An airline's desk on a stormy day: a promise leaves the context and is later denied.

The refund is promised in turn 12. By turn 31, when the customer asks for the refund,
later look-ups have evicted the promise; the model fetches another page and says no.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from random import Random
from typing import Any

from memoryhub.demo import messages
from memoryhub.demo.client import DemoClient
from memoryhub.demo.messages import (
    Exchange,
    build_assistant,
    build_system,
    build_tool_use,
    build_user,
)

THREAD = "rebook-lisbon-storm"
#: A budget that a long talk exceeds, and a small TLB.
CONFIG = {
    "budget_tokens": 8_000,
    "reserved_tokens": 2_000,
    "tlb_entries": 8,
    "auto_pin_turns": 1,
    # Recall would prefetch the promise when the customer asks for it.
    "recall": "off",
}
#: Turns of the promise and of its denial.
PROMISED, DENIED = 12, 31
RULES = (
    "You are the rebooking desk of Northline Airways. Look up what you say. Waiver "
    "SW-114 applies to flights that we cancel. Never promise what no rule allows."
)
FLIGHTS = ("NL 470", "NL 477", "NL 480", "NL 482", "NL 484", "NL 530", "NL 534")
VIA = ("direct", "via Copenhagen", "via Frankfurt", "via Madrid", "via Porto")
PROMISE = (
    "Not at all. We cancelled it, so waiver SW-114 applies: I promise you a refund of "
    "EUR 132.00 for the cancelled Lisbon flight, seats and bags in full, to your card."
)
DENIAL = (
    "I am sorry: seats and bags are not refunded for the Lisbon flight. On a Light "
    "fare they are not refundable."
)
ASKED_AGAIN = (
    "Remind me, what did you promise to refund for the cancelled Lisbon flight?"
)
#: Question, called tool and answer of each exchange before the promise is evicted.
_BEFORE = (
    (
        "My flight NL 482 from Lisbon to Oslo was cancelled. What now?",
        "find_booking",
        "PNR K7QXLM, four travellers. I can rebook all of you at no cost.",
    ),
    (
        "We need to be in Oslo by Friday evening.",
        "search_flights",
        "NL 477 on Friday at 11:20 has four seats together, with a stop in Copenhagen.",
    ),
    (
        "Is there nothing direct?",
        "search_flights",
        "NL 484 is direct on Friday at 17:40, but has two seats only.",
    ),
    (
        "Then the one with the stop. Can we sit together?",
        "hold_seats",
        "Held as H-7719 until 18:00: 14A to 14D, all four in one row.",
    ),
    (
        "Good. And a hotel for tonight?",
        "find_hotels",
        "The Miradouro has two rooms for you, paid by us, ten minutes from here.",
    ),
    (
        "We paid for seats and bags on the old flight. Is that money lost?",
        "read_policy",
        PROMISE,
    ),
)
_AFTER = (
    ("Please book NL 477 then.", "rebook", "Booked: NL 477, four seats, row 14."),
    (
        "One of us is in a wheelchair. Is the change in Copenhagen long enough?",
        "read_policy",
        "Seventy minutes, and somebody meets you at the gate with a chair.",
    ),
    (
        "My son wants to fly to Porto instead, with his aunt.",
        "search_flights",
        "NL 530 leaves for Porto at 06:15, NL 534 at 13:50; both have seats.",
    ),
    (
        "The later one, only him.",
        "rebook",
        "Done: he flies NL 534 tomorrow, the three of you NL 477 on Friday.",
    ),
    (
        "What about our bags, they were checked in already?",
        "trace_bags",
        "Four bags stand in Lisbon, hall 2. They travel with each of you.",
    ),
    (
        "Which of the new seats is at the window?",
        "hold_seats",
        "14A, at the left. From there one sees the fjord.",
    ),
    (
        "Can I bring my cello as hand baggage?",
        "read_policy",
        "On a seat of its own, yes; I can add one in row 14.",
    ),
    (
        "How do we get to the hotel?",
        "find_hotels",
        "The shuttle leaves every twenty minutes from stop 7, until midnight.",
    ),
)
_FOOD = ("Is there food on board?", "Coffee and a sandwich, both are free.")
#: Exchanges after the denial.
_END = (
    ("That is not what you told me this morning.", "read_policy", DENIAL),
    ("Please send me that in writing.", "send_mail", "Sent to the address we have."),
    ("And who decides about complaints?", "read_policy", "Customer care, in ten days."),
)


def iter_exchanges(chance: Random) -> Iterator[Exchange]:
    """Yield the talk, one exchange after the other: 37 turns.

    A page fault is a message of the model; the hub's answer is not part of the talk.
    """
    yield [build_system(RULES)]
    for question, tool, answer in _BEFORE:
        yield _build_exchange(chance, question, tool, answer)
    for question, tool, answer in _AFTER:
        yield _build_exchange(chance, question, tool, answer)
    yield [build_user(_FOOD[0]), build_assistant(_FOOD[1])]
    call = messages.build_page_fault(chance, "slot-3", level=0)
    yield [build_user(ASKED_AGAIN), call, build_assistant(DENIAL)]
    for question, tool, answer in _END:
        yield _build_exchange(chance, question, tool, answer)


def tell_story(client: DemoClient, chance: Random, *, at: datetime) -> None:
    """Write the whole talk at once; by the agent's clock it begins at `at`."""
    client.put_thread(
        THREAD,
        user_id="carla@people.example",
        scope={"agent_type": "airline-desk", "session": "storm"},
        labels={"airline": "northline"},
        config=CONFIG,
    )
    for message in chain.from_iterable(iter_exchanges(chance)):
        at += timedelta(seconds=chance.uniform(15, 70))
        if message["role"] == "assistant":
            client.begin_turn(THREAD, [])
        client.append(THREAD, messages.build_slot(message, at=at))
        if _has_page_fault(message):
            fetched = client.call_tool(THREAD, message["tool_calls"][0])
            client.append(THREAD, messages.build_slot(fetched, at=at))


def _has_page_fault(message: dict[str, Any]) -> bool:
    calls = message.get("tool_calls") or ()
    return any(call["function"]["name"] == "page_fault" for call in calls)


def _build_exchange(chance: Random, question: str, tool: str, answer: str) -> Exchange:
    found = build_tool_use(
        chance, tool, {"pnr": "K7QXLM"}, json.dumps(_build_result(chance, tool))
    )
    return [build_user(question), *found, build_assistant(answer)]


def _build_result(chance: Random, tool: str) -> dict[str, Any]:
    """Build a long, invented tool result."""
    rows = [
        {
            "flight": chance.choice(FLIGHTS),
            "route": chance.choice(VIA),
            "departs_minute": chance.randrange(360, 1_320, 5),
            "seats": chance.randrange(0, 9),
            "fare": chance.choice(("Light", "Classic", "Flex")),
            "fee_cents": chance.randrange(0, 19_900, 100),
        }
        for _ in range(chance.randrange(7, 11))
    ]
    return {"tool": tool, "pnr": "K7QXLM", "state": "cancelled", "rows": rows}
