"""The support desk of a bicycle shop: short cases, looked up, solved and closed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import (
    Exchange,
    Message,
    build_assistant,
    build_system,
    build_tool_use,
    build_user,
)

RULES = (
    "You are the support desk of Northwind Bicycles. Look an order up before you speak "
    "about it. Refunds over 200 euros need a person. Be brief and kind."
)

#: Text of the page that is pinned in each case.
POLICY = (
    "Returns are taken back for thirty days, if the frame has no scratch. A part that "
    "fails in two years is replaced. Whoever waits longer than promised is offered ten "
    "percent. A parcel that came twice may be kept for half of its price. Children's "
    "seats and helmets that fell are never sold again, nor repaired."
)

#: Names of the threads, one a case.
NAMES = (
    "scratched-pannier",
    "parcel-came-twice",
    "helmet-too-small",
    "rattling-saddle",
    "late-rear-light",
    "two-screws-missing",
    "wrong-colour-trailer",
    "old-address",
)

BANK: Bank = {
    "hello": [
        "Hi, it's about order {order}.",
        "Good morning! My order {order} {trouble}.",
        "Hello, I wrote yesterday about {order} and nobody answered.",
        "Could you look at {order} for me? It {trouble}.",
        "Order {order} again, sorry to be a nuisance.",
        "My {item} {trouble}. The order was {order}.",
    ],
    "item": [
        "touring bike",
        "rear light",
        "pannier",
        "helmet",
        "chain set",
        "child seat",
        "saddle",
        "repair stand",
        "front rack",
        "pair of gloves",
        "floor pump",
        "cargo trailer",
    ],
    "trouble": [
        "came with a scratch on one side",
        "has not arrived yet",
        "is the wrong size",
        "rattles from the first ride on",
        "was sent to my old address",
        "lacks two screws",
        "stopped working after {days} days",
        "is lovely, but not the colour I asked for",
        "arrived twice",
    ],
    "days": ["two", "three", "five", "nine", "twelve", "twenty"],
    "found": [
        "I found it: a {item}, sent on {weekday}, now {state}.",
        "Thank you. The order holds a {item} and is {state}.",
        "Here it is. One {item}, paid in full, {state} since {weekday}.",
        "I see a {item} in that order; the carrier says it is {state}.",
    ],
    "weekday": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    "state": [
        "delivered",
        "on its way",
        "waiting at the depot",
        "held by customs",
        "being packed",
    ],
    "ask": [
        "What would you like: {choice}?",
        "I can offer {choice}. Which suits you?",
        "Shall I arrange {choice}?",
        "Would {choice} help you best?",
    ],
    "choice": [
        "a new {item} or your money back",
        "a spare part by post",
        "a visit at our workshop on {weekday}",
        "a return label and a refund",
        "a discount of {percent} percent if you keep it",
    ],
    "percent": ["10", "15", "20", "25"],
    "wish": [
        "The money back, please.",
        "A new one would be great, no hurry at all.",
        "I'd rather keep it, if the discount is real.",
        "The workshop, then; {weekday} is fine.",
        "Send me the part, I have tools and patience.",
        "Hmm. My partner says exchange it, so exchange it.",
        "A refund. I already bought a {item} in town, I'm afraid.",
    ],
    "done": [
        "Done: {deed}. You will get an e-mail within the hour.",
        "That is arranged: {deed}. Anything else?",
        "I have noted it: {deed}. Thank you for your patience.",
        "All set, {deed}. Have a good ride.",
    ],
    "deed": [
        "the exchange is booked for {weekday}",
        "the refund is on its way to your card",
        "the part leaves our store today",
        "the workshop expects you on {weekday} at {hour}",
        "{percent} percent will be paid back",
    ],
    "hour": ["nine", "ten", "half past eleven", "two", "four"],
    "thanks": [
        "Perfect, thank you!",
        "That was quick. Thanks a lot.",
        "Great. You just made my {weekday}.",
        "Thanks, that's all.",
        "Good. I'll wait for the e-mail then.",
    ],
    "again": [
        "One more thing: does the {item} come with a warranty?",
        "Sorry, it's me again. Can the parcel go to a neighbour?",
        "I forgot to ask: may I bring the old {item} along?",
        "Actually, could we make it {weekday} instead?",
    ],
    "answer": [
        "Yes, two years on every {item}; keep the invoice.",
        "Of course, I have added a note for the carrier.",
        "Gladly, we recycle them.",
        "Changed. It is {weekday} now.",
    ],
}


def iter_cases(chance: Random) -> Iterator[list[Exchange]]:
    """Yield cases, each a list of exchanges."""
    grammar = Grammar(bank=BANK, chance=chance)
    while True:
        yield _build_case(grammar, chance)


def build_reopening(chance: Random) -> Exchange:
    """Build the exchange with which a customer reopens a closed case."""
    grammar = Grammar(bank=BANK, chance=chance)
    return [build_user(grammar.say("again")), build_assistant(grammar.say("answer"))]


def _build_case(grammar: Grammar, chance: Random) -> list[Exchange]:
    order = f"NB-{chance.randrange(10_000, 99_999)}"
    item, state = grammar.pick("item"), grammar.pick("state")
    details = {"order": order, "item": item, "state": state}
    opening: list[Message] = [
        build_system(RULES),
        build_user(grammar.say("hello", **details)),
    ]
    record = {
        "order": order,
        "item": item,
        "state": state,
        "paid_cents": chance.randrange(1_900, 189_900, 100),
        "sent": grammar.pick("weekday"),
    }
    looked_up = build_tool_use(chance, "find_order", {"order": order}, record)
    offered = [
        build_assistant(f"{grammar.say('found', **details)} {grammar.say('ask')}")
    ]
    wished = [build_user(grammar.say("wish"))]
    deed = grammar.say("deed")
    arranged = build_tool_use(
        chance, "arrange", {"order": order, "deed": deed}, {"ok": True, "order": order}
    )
    closing = [
        build_assistant(grammar.say("done", deed=deed)),
        build_user(grammar.say("thanks")),
    ]
    return [opening, looked_up, offered, wished, arranged, closing]
