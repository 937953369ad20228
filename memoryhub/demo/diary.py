"""A diarist: long days told to a patient listener."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import Exchange, build_assistant, build_user

#: A budget that a week of entries exceeds.
CONFIG = {"budget_tokens": 4_000, "reserved_tokens": 1_000}
#: Pinned last days; even the longest entries stay below the limit of pins.
PINNED = 5

#: Entries of one diary.
DAYS = 28

#: Things and their hiding places. A diary begins with hiding one and ends with the
#: search for it, when the first message has long left the context.
HIDDEN = (
    ("the amber ring", "behind the loose brick in the chimney"),
    ("the boathouse key", "in the blue teapot on the pantry shelf"),
    ("my savings book", "under the third step of the cellar stairs"),
)

BANK: Bank = {
    "opening": [
        "Up at {hour}, {weather}.",
        "Slept badly, {weather} all night.",
        "A slow start: {weather}, and no milk in the house.",
        "{hour} and already at the harbour. It was {weather}.",
        "Nobody about. {weather}, so I stayed in bed until {hour}.",
    ],
    "hour": ["half past five", "six", "seven", "nearly eight", "a quarter to ten"],
    "weather": [
        "rain on the skylight",
        "clear and very cold",
        "fog as thick as wool",
        "a warm wind from the south",
        "snow that did not stay",
        "the first real sun in weeks",
    ],
    "event": [
        "Mended {thing} with {tool}, which will hold until spring.",
        "{friend} came by with {gift} and stayed for two hours.",
        "Walked to {place} and back; counted {number} herons.",
        "Wrote {number} lines and struck out most of them.",
        "Argued with {friend} about {topic}. We both laughed in the end.",
        "Planted {number} onions, though it is late for it.",
        "Found my father's {thing} in the shed, under the nets.",
        "A letter from {friend}: the house at {place} is sold.",
        "Learned to say thank you in {friend}'s language. Badly.",
        "Baked bread. {number} rolls, of which {friend} took half.",
    ],
    "friend": ["Ida", "Jonas", "old Mirko", "the neighbour's girl", "Theres", "Paul"],
    "thing": ["lantern", "garden gate", "radio", "oar", "kettle", "barometer"],
    "tool": ["wire and patience", "tar", "two nails", "a spoon", "string"],
    "gift": ["a jar of plums", "smoked fish", "a book without a cover", "news"],
    "place": ["the mill", "the far jetty", "Saint Anna's", "the old quarry"],
    "topic": ["the ferry", "whether gulls remember faces", "money", "the new road"],
    "number": ["three", "seven", "eleven", "twenty", "forty", "ninety"],
    "mood": [
        "A good day, on the whole.",
        "I am tired in the way one likes to be.",
        "I keep thinking about {place}.",
        "Nothing happened and I would not have missed it.",
        "Tomorrow I must write to {friend}.",
        "If the wind drops I will row to {place}.",
    ],
    "echo": [
        "You mentioned {friend} again. What did you two talk about at first?",
        "What made the walk to {place} worth it?",
        "That sounds like a full day. What will you remember of it in a year?",
        "You sound lighter than last week. Is it the weather?",
        "And the {thing}, does it work now?",
        "I have noted the onions. Shall I remind you in spring?",
    ],
    "reply": [
        "We spoke of {topic}, as always.",
        "The silence, mostly.",
        "The smell of {gift}, I think.",
        "It is. And I sleep with the window open now.",
        "It works if nobody looks at it.",
        "Yes, remind me when the ice is gone.",
    ],
}


def iter_days(chance: Random) -> Iterator[Exchange]:
    """Yield entries of some paragraphs, each with a question about it and an answer."""
    grammar = Grammar(bank=BANK, chance=chance)
    while True:
        paragraphs = [
            " ".join(grammar.say("event") for _ in range(chance.randrange(2, 6)))
            for _ in range(chance.randrange(1, 4))
        ]
        parts = [grammar.say("opening"), *paragraphs, grammar.say("mood")]
        entry = "\n\n".join(text[:1].upper() + text[1:] for text in parts)
        yield [
            build_user(entry),
            build_assistant(grammar.say("echo")),
            build_user(grammar.say("reply")),
        ]


def build_hiding(number: int) -> Exchange:
    """Build the exchange that hides a thing, by the diary's number."""
    thing, place = HIDDEN[number % len(HIDDEN)]
    return [
        build_user(
            f"Before I begin: I have put {thing} {place}. I am sure to forget it."
        ),
        build_assistant("Then I keep it in mind. And now tell me about your day."),
    ]


def build_search(number: int) -> Exchange:
    """Build the question where the thing is, and the answer, by the diary's number."""
    thing, place = HIDDEN[number % len(HIDDEN)]
    return [
        build_user(f"I have looked everywhere. Where did I put {thing}?"),
        build_assistant(f"You put it {place}. You told me before your first entry."),
        build_user("There it was, of course. Thank you!"),
    ]
