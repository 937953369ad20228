"""A planner and a week of moving house in one thread, in which agreements change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle
from random import Random

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import (
    Exchange,
    build_assistant,
    build_system,
    build_tool_use,
    build_user,
)

#: Name of a week's thread.
THREAD = "moving-week"
#: A budget that two and a half days fill; a day or two later the log is long, too.
CONFIG = {
    "budget_tokens": 4_000,
    "reserved_tokens": 1_000,
    "observe": True,
    "reflect_at": 0.15,
}

RULES = (
    "You plan how a household moves. What was agreed on holds until it is changed. "
    "Look prices and times up before you name them."
)

#: Agreements, by day. The last day asks for the code of the first.
DAYS = (
    (
        "We move to Harbour Street 3 on Friday. The door code there is {code}.",
        "Jonas drives the van, and it may cost {price} euros at most.",
    ),
    (
        "The piano stays with Theres, who pays {sum} euros for it in May.",
        "Call the landlord Mr Brandt; he is in from four to six.",
    ),
    (
        "The van comes on Saturday at nine, no longer on Friday at eight.",
        "Mind box {box}: it holds my mother's glass, and goes up last.",
    ),
    (
        "Mr Brandt wants the keys of Mill Lane 14 by Saturday noon.",
        "The lift of Harbour Street 3 takes 300 kilos, so no piano after all.",
    ),
    (
        "The power is on from Friday, meter {meter}.",
        "Ida lends us 2 trolleys until Sunday.",
    ),
    (
        "Box {box} has a crack in its side; I have put the glass into box {other}.",
        "Jonas is ill. Paul drives the van, still on Saturday at nine.",
    ),
)
#: Ranges of the agreed numbers.
AGREED = {
    "code": (1_000, 9_999),
    "price": (120, 300),
    "sum": (300, 900),
    "box": (10, 30),
    "other": (30, 50),
    "meter": (100_000, 999_999),
}
QUESTION = "We stand at the door and it is shut. What was the code again?"
REPLY = "It is {code}, at Harbour Street 3. You said so on the first day."

BANK: Bank = {
    "chat": [
        "The cat has understood that something is going on.",
        "I slept on a mattress between boxes.",
        "Who needs so many books? Well, we do.",
        "It rains, which is no good sign.",
        "I keep finding things that I had given up for lost.",
        "All my socks are in one box and nobody knows in which.",
    ],
    "noted": ["I keep that in mind.", "Noted.", "Good. That goes on the list."],
    "errand": [
        "Can you find {thing} near {place}?",
        "What does {thing} cost these days?",
        "Is there {thing} to be had before {weekday}?",
        "We still lack {thing}. Where is it cheapest?",
    ],
    "thing": [
        "a parking permit",
        "thirty boxes",
        "bubble wrap",
        "a second van",
        "a plumber",
        "a piano mover",
        "a skip",
    ],
    "place": ["Mill Lane", "Harbour Street", "the station"],
    "weekday": ["Thursday", "Friday", "Saturday"],
    "firm": ["Heron & Sons", "Blue Door", "Two Men", "Harbour Hire", "The Shed"],
    "free": [
        "free on {weekday}",
        "booked out until {weekday}",
        "answers by phone only",
    ],
    "outcome": [
        "{firm} has {thing} for {cost} euros, {free}.",
        "The best I found is {firm}: {thing}, {cost} euros, {free}.",
        "{thing} would be {cost} euros at {firm}, {free}.",
    ],
}


def iter_days(chance: Random) -> Iterator[list[Exchange]]:
    """Yield the days of a week, each a list of exchanges; the last day has one
    exchange."""
    grammar = Grammar(bank=BANK, chance=chance)
    agreed = {name: chance.randrange(*reach) for name, reach in AGREED.items()}
    for number, facts in enumerate(DAYS):
        morning, evening = [
            _build_agreement(grammar, fact.format(**agreed)) for fact in facts
        ]
        errands = [_build_errand(grammar, chance) for _ in range(chance.randint(4, 5))]
        opening = [[build_system(RULES)]] if number == 0 else []
        yield [*opening, morning, *errands[:2], evening, *errands[2:]]
    yield [[build_user(QUESTION), build_assistant(REPLY.format(**agreed))]]


def iter_exchanges(chance: Random) -> Iterator[Exchange]:
    """Return the exchanges of endless weeks."""
    return chain.from_iterable(chain.from_iterable(map(iter_days, cycle([chance]))))


def _build_agreement(grammar: Grammar, fact: str) -> Exchange:
    return [
        build_user(f"{grammar.say('chat')} {fact}"),
        build_assistant(grammar.say("noted")),
    ]


def _build_errand(grammar: Grammar, chance: Random) -> Exchange:
    thing = grammar.pick("thing")
    costs = sorted(chance.sample(range(15, 300), 3))
    offers = [
        {"firm": firm, "cost": cost, "free": grammar.say("free")}
        for firm, cost in zip(chance.sample(BANK["firm"], 3), costs, strict=True)
    ]
    outcome = grammar.say("outcome", thing=thing, **offers[0])
    return [
        build_user(f"{grammar.say('chat')} {grammar.say('errand', thing=thing)}"),
        *build_tool_use(chance, "find_offers", {"of": thing}, {"offers": offers}),
        build_assistant(outcome[:1].upper() + outcome[1:]),
    ]
