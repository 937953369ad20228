"""A diarist: long days told to a patient listener."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memoryhub.management.demo.grammar import Bank, Grammar
from memoryhub.management.demo.messages import Exchange, assistant, user

#: Small enough that a week of days is more than may be in a context.
CONFIG = {"budget_tokens": 4_000, "reserved_tokens": 1_000}
#: Of the last days; the longest of them together are less than may be pinned.
PINNED = 5

#: Of one diary.
DAYS = 28

#: Things and where they are put away as a diary begins; each is looked for at its end,
#: when that has long left the context.
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


def days(chance: Random) -> Iterator[Exchange]:
    """A day's entry of some paragraphs, a question about it, and an answer."""
    grammar = Grammar(bank=BANK, chance=chance)
    while True:
        paragraphs = [
            " ".join(grammar.say("event") for _ in range(chance.randrange(2, 6)))
            for _ in range(chance.randrange(1, 4))
        ]
        parts = [grammar.say("opening"), *paragraphs, grammar.say("mood")]
        entry = "\n\n".join(text[:1].upper() + text[1:] for text in parts)
        yield [
            user(entry),
            assistant(grammar.say("echo")),
            user(grammar.say("reply")),
        ]


def hides(number: int) -> Exchange:
    """Say where something is put away, in a diary of this number."""
    thing, place = HIDDEN[number % len(HIDDEN)]
    return [
        user(f"Before I begin: I have put {thing} {place}. I am sure to forget it."),
        assistant("Then I keep it in mind. And now tell me about your day."),
    ]


def looks_for(number: int) -> Exchange:
    """Ask where it is, in the same diary; the answer is what was said then."""
    thing, place = HIDDEN[number % len(HIDDEN)]
    return [
        user(f"I have looked everywhere. Where did I put {thing}?"),
        assistant(f"You put it {place}. You told me before your first entry."),
        user("There it was, of course. Thank you!"),
    ]
