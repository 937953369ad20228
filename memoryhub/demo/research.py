"""A researcher with two topics whose findings never fit together.

While questions keep to one topic the context settles; where the topic changes with each
question the context thrashes. So both rates of the thread fall and rise.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Any

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import (
    Exchange,
    build_assistant,
    build_tool_use,
    build_user,
)

_SHARED: Bank = {
    "ask": [
        "What do we know about {subject}?",
        "Compare {subject} with what you found before.",
        "Is there a number for {subject}?",
        "Who disagrees about {subject}, and why?",
        "Back to {subject}: what is the strongest source?",
        "Summarise {subject} in two sentences.",
        "I doubt the claim about {subject}. Check it again.",
    ],
    "verdict": [
        "The sources agree on {subject}: {claim}.",
        "Two of three say that {claim}; the third only repeats the second.",
        "Carefully put, {claim}. I would not cite it without the table.",
        "So far {claim}, though the sample is small.",
        "That was right as of {year}; since then {claim}.",
        "The claim holds, with one exception: {claim} only in winter.",
    ],
    "year": ["1931", "1958", "1974", "1989", "2003", "2016", "2022"],
    "source": [
        "a report of {year}",
        "a thesis of {year}",
        "the harbour's own records, {year}",
        "an atlas printed in {year}",
        "the minutes of a society, {year}",
    ],
}

TIDES: Bank = {
    **_SHARED,
    "subject": [
        "tidal range in narrow bays",
        "the cost of a barrage",
        "silt behind a weir",
        "turbines and fish",
        "neap tide output",
        "storage between two tides",
        "corrosion of blades",
    ],
    "claim": [
        "the range doubles where the bay narrows to a third",
        "half of the cost lies in the foundations",
        "silt takes four percent of the basin in ten years",
        "fish pass slow blades nearly unharmed",
        "neap tides give a quarter of what spring tides give",
        "two basins even out the day but not the month",
        "coatings last seven years in warm water",
    ],
    "passage": [
        "At the {place} gauge the mean range was {number} decimetres over the year.",
        "Engineers at {place} counted {number} stops of the turbine, mostly for weed.",
        "Of {number} tagged salmon at {place} all but three were seen again upstream.",
        "Dredging at {place} moved {number} barges of silt between March and May.",
        "The sluice at {place} loses {number} centimetres of head when half open.",
    ],
    "place": ["Penwick", "Saltmouth", "Grey Point", "Lower Ferry", "Hollow Sands"],
}

MAPS: Bank = {
    **_SHARED,
    "subject": [
        "rhumb lines on sea charts",
        "the scale of road maps before printing",
        "islands that never were",
        "who paid the map makers",
        "north at the top",
        "coastlines copied from copies",
        "colours used for water",
    ],
    "claim": [
        "the lines were drawn before the coast",
        "distances were kept in days, not miles",
        "three of the false islands come from one sailor's log",
        "a city paid as often as a king did",
        "south stood at the top as often as north",
        "each copy moved the cape a finger to the east",
        "green meant shallow water and blue meant a harbour",
    ],
    "passage": [
        "The chart kept at {place} shows {number} towns on a coast of one span.",
        "A margin of the {place} copy names {number} winds, four of them twice.",
        "The workshop in {place} bought vellum for {number} sheets that winter.",
        "Of {number} islands on the {place} map, nineteen can not be found today.",
        "The road from {place} is drawn as {number} knots, one for each day's walk.",
    ],
    "place": ["Altamar", "Brunn", "Carrow Abbey", "San Leone", "Vester Havn"],
}

TOPICS = (TIDES, MAPS)
#: A budget of which one topic's findings take more than half, so that two never fit.
CONFIG = {
    "budget_tokens": 7_500,
    "reserved_tokens": 1_500,
    "max_faults_per_turn": 8,
    # Room for one topic and its messages: a change of topics replaces all entries.
    "tlb_entries": 16,
    # Recalled pages leave with their exchange; fetched pages stay.
    "recall": "off",
}
FINDINGS, PASSAGES = 7, 24
#: Questions of a thread; the order of topics repeats twice.
QUESTIONS = 48
#: Topics of the questions, over and over: settled, torn, settled with the other, torn.
ORDER = (*[0] * 6, *[1, 0] * 3, *[1] * 6, *[0, 1] * 3)


def build_findings(chance: Random) -> list[list[str]]:
    """Build the texts that answer the questions, by topic."""
    grammars = [Grammar(bank=bank, chance=chance) for bank in TOPICS]
    return [
        [
            " ".join(
                grammar.say("passage", number=chance.randrange(12, 240))
                for _ in range(PASSAGES)
            )
            for _ in range(FINDINGS)
        ]
        for grammar in grammars
    ]


def iter_rounds(chance: Random) -> Iterator[Exchange]:
    """Yield exchanges of question, reading and verdict, in the order of topics."""
    for topic in cycle(ORDER):
        grammar = Grammar(bank=TOPICS[topic], chance=chance)
        subject = grammar.pick("subject")
        yield [
            build_user(grammar.say("ask", subject=subject)),
            *_build_reading(grammar, chance, subject),
            build_assistant(grammar.say("verdict", subject=subject)),
        ]


def _build_reading(grammar: Grammar, chance: Random, subject: str) -> Exchange:
    found: list[dict[str, Any]] = [
        {
            "source": grammar.say("source"),
            "passages": [
                grammar.say("passage", number=chance.randrange(12, 240))
                for _ in range(chance.randrange(2, 7))
            ],
        }
        for _ in range(chance.randrange(1, 4))
    ]
    query = {"query": subject, "limit": len(found)}
    return build_tool_use(chance, "search_library", query, {"results": found})
