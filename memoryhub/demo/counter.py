"""A ticket counter that reports each sale, into short threads."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import (
    Exchange,
    build_assistant,
    build_tool_use,
    build_user,
)

#: Sales of a thread, of four messages each, and slots with room for more: a nearly full
#: thread is a thing to look at.
SALES = 20
MAX_SLOTS = 5 * SALES

#: Names of the threads.
NAMES = (
    "box-office-matinee",
    "box-office-night-train",
    "box-office-puppet-opera",
    "box-office-organ-concert",
    "box-office-revue",
)

BANK: Bank = {
    "ask": [
        "{people} for the {show}, please.",
        "Is there anything left for the {show}?",
        "{people} seats together, row {row} or better.",
        "The {show}, cheapest you have.",
        "A gift for my aunt: {people} for the {show}.",
        "Do you have the {show} on {weekday}?",
    ],
    "people": ["One", "Two", "Three", "Four"],
    "show": ["matinee", "night train play", "puppet opera", "organ concert", "revue"],
    "row": ["4", "7", "9", "12", "15"],
    "weekday": ["Thursday", "Friday", "Saturday", "Sunday"],
    "sold": [
        "Row {row}, that makes {price} euros.",
        "Here you are, {price} euros. Doors open at seven.",
        "The last ones, row {row}. {price} euros, please.",
        "{price} euros with the reduction. Enjoy it.",
    ],
}


def iter_sales(chance: Random) -> Iterator[Exchange]:
    grammar = Grammar(bank=BANK, chance=chance)
    while True:
        price, seat = chance.randrange(9, 80), chance.randrange(1, 40)
        show, row = grammar.pick("show"), grammar.pick("row")
        sale = {"show": show, "row": row, "seat": seat, "price_cents": price * 100}
        yield [
            build_user(grammar.say("ask", show=show, row=row)),
            *build_tool_use(
                chance, "sell", sale, {"ticket": f"T{chance.getrandbits(32):08X}"}
            ),
            build_assistant(grammar.say("sold", row=row, price=price)),
        ]
