"""A concierge and a guest whose wishes change: tables, taxis, and other facts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import (
    Exchange,
    build_assistant,
    build_tool_use,
    build_user,
)

#: Wishes of one stay.
WISHES = 12
#: Name and description of the block about the guest.
BLOCK, ABOUT = "guest", "What the concierge keeps in mind of this guest."
#: Patterns by which the demo's model finds a fact: pattern, predicate, value.
FACTS = (
    (r"I moved to (\w+)\.", "lives_in", r"\1"),
    (r"My new number ends in (\d\d)\.", "phone_ends_in", r"\1"),
    (r"I take the train now", "travels_by", "train"),
    (r"I eat fish again", "eats", "fish, but no meat"),
    (r"I no longer eat meat", "eats", "no meat"),
    (r"My birthday is on the (\d+)th", "birthday", r"the \1th"),
    (r"I work from (\w+) on (\w+)s\.", "works_from", r"\1 on \2s"),
    (r"Call me by my second name", "is_called_by", "the second name"),
    (r"Nothing with nuts", "allergic_to", "nuts"),
)
#: First message of a new guest; a mistake and its correction; and an older message
#: that is added late, with its age in days.
MOVED = "I moved to Trieste."
MISTAKEN, TAKEN_BACK = "My new number ends in 99.", "No, 99 was never mine. Strike it."
LATE, LATE_DAYS = "I moved to Ghent.", 21

BANK: Bank = {
    "wish": [
        "A table for {people} tonight, please. {taste}",
        "Could you get me a taxi to {place} at {hour}?",
        "{fact} Please keep that in mind.",
        "Find me something to do near {place}. {taste}",
        "My sister joins us: {people} of us now, at {hour}.",
        "Cancel the {hour} plan. {fact}",
        "Which room was it again? {taste}",
    ],
    "people": ["two", "three", "four", "six"],
    "taste": [
        "Nothing with nuts.",
        "Somewhere quiet.",
        "We like it spicy.",
        "By the water, if you can.",
        "I no longer eat meat.",
        "It may cost a little more this time.",
        "Last time it was too loud.",
    ],
    "fact": [
        "I moved to {town}.",
        "My new number ends in {digits}.",
        "I take the train now, never the car.",
        "I eat fish again.",
        "My birthday is on the {day}th.",
        "I work from {town} on {weekday}s.",
        "Call me by my second name from now on.",
    ],
    "town": ["Lindau", "Porto", "Ghent", "Bergen", "Trieste", "Cork"],
    "digits": ["04", "17", "38", "52", "66", "91"],
    "day": ["4", "9", "16", "27", "28"],
    "weekday": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    "place": ["the old port", "the opera", "the station", "the botanical garden"],
    "hour": ["seven", "half past seven", "eight", "nine"],
    "house": ["Zum Anker", "Casa Verde", "The Lamp", "Petite Marée", "Ninety Steps"],
    "booked": [
        "Booked: {house}, {people} people, {hour}.",
        "{house} has a table by the window at {hour}.",
        "I took the last table at {house}; they know about your wishes.",
        "{house} at {hour}. If it rains they will move you inside.",
    ],
    "noted": [
        "Noted, and the old entry no longer counts.",
        "I will remember that.",
        "Good to know. I have changed it in your profile.",
        "Thank you, that replaces what you told me in spring.",
    ],
    "thanks": [
        "Wonderful.",
        "Thank you, as ever.",
        "That will do nicely.",
        "You think of everything.",
        "Hm, all right.",
    ],
}


def get_remembered(exchange: Exchange) -> str:
    """Return the fact of the concierge's call of `remember`; empty without a call."""
    for message in exchange:
        for call in message.get("tool_calls") or ():
            if call["function"]["name"] == "remember":
                fact: str = json.loads(call["function"]["arguments"])["fact"]
                return fact
    return ""


def iter_wishes(chance: Random) -> Iterator[Exchange]:
    """Yield exchanges of a wish, the tool's results, and an answer."""
    grammar = Grammar(bank=BANK, chance=chance)
    while True:
        house, hour = grammar.pick("house"), grammar.pick("hour")
        wish = build_user(grammar.say("wish", hour=hour))
        if chance.random() < 0.35:
            fact = {"fact": grammar.say("fact"), "replaces_older": True}
            noted = build_tool_use(chance, "remember", fact, {"ok": True})
            yield [wish, *noted, build_assistant(grammar.say("noted"))]
            continue
        free = [
            {"house": grammar.pick("house"), "hour": grammar.pick("hour"), "free": n}
            for n in range(1, chance.randrange(2, 6))
        ]
        query = {"near": grammar.pick("place"), "hour": hour}
        booked = build_assistant(grammar.say("booked", house=house, hour=hour))
        found = build_tool_use(chance, "find_tables", query, {"tables": free})
        yield [wish, *found, booked, build_user(grammar.say("thanks"))]
