"""The messages that are written: recorded runs of a real agent, or some like them.

MEMORYHUB_SAMPLE names the recorded runs; without them runs of the same shape are made.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from tests.cast import sample

Message = dict[str, Any]

#: As in the recorded runs: how many, how long, and the median size by role.
RUNS = 100
TURNS = range(4, 15)
SIZES = {"system": 6_200, "user": 90, "assistant": 200, "tool": 850}
PROSE = (
    "the booking of your trip can be changed until a day before it begins please "
    "confirm that I should move both passengers to the later flight and keep seats"
)
WORDS = PROSE.split()
#: Of a message that is made by its number.
CHARACTERS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Conversation with an agent."""

    name: str
    messages: tuple[Message, ...]


@cache
def runs() -> tuple[Run, ...]:
    """Return the recorded runs, else made ones; the same at every call."""
    found = sample.find()
    if found is None:
        return tuple(_made(number) for number in range(RUNS))
    recorded = json.loads(found.read_text(encoding="utf-8"))
    return tuple(
        Run(name=f"run-{n}", messages=tuple(run["traj"]))
        for n, run in enumerate(recorded)
    )


@cache
def messages() -> tuple[Message, ...]:
    """Return all messages of all runs, in order."""
    return tuple(message for run in runs() for message in run.messages)


def source() -> str:
    """Return the origin of the messages, for the table."""
    return "recorded" if sample.find() else "made"


def text_of(message: Message) -> str:
    """Return the message as compact JSON."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def size_of(message: Message) -> int:
    return len(text_of(message).encode())


def as_file() -> str:
    """Return the runs as `manage.py import` reads them."""
    return json.dumps(
        [
            {"task_id": n, "trial": 0, "reward": 1.0, "info": {}, "traj": run.messages}
            for n, run in enumerate(runs())
        ]
    )


@cache
def build_vocabulary() -> tuple[list[str], list[float]]:
    """Return words, the nth 1/n as common as the first, and their summed weights."""
    chance = random.Random(5)
    syllables = [a + b + c for a in "bdfglmnprst" for b in "aeiou" for c in ("", *"nr")]
    made = ("".join(chance.choices(syllables, k=1 + n % 3)) for n in range(20_000))
    words = list(dict.fromkeys(made))
    return words, [*accumulate(1 / rank for rank in range(1, len(words) + 1))]


def build_text(number: int) -> str:
    """Return 400 characters of words, different for every number."""
    words, weights = build_vocabulary()
    chance = random.Random(number)
    chosen = chance.choices(words, cum_weights=weights, k=CHARACTERS // 2)
    return " ".join(chosen)[:CHARACTERS]


def build_message(number: int) -> Message:
    """Return a message of 400 characters, of the user where the number is even."""
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": build_text(number)}


def _made(number: int) -> Run:
    chance = random.Random(number)
    written: list[Message] = [_said("system", chance)]
    for turn in range(chance.choice(TURNS)):
        call = f"call_{number}_{turn}"
        written.append(_said("user", chance))
        if chance.random() < 0.5:
            asked = {"name": "find_booking", "arguments": '{"booking": "K7"}'}
            calls = [{"id": call, "type": "function", "function": asked}]
            written.append({"role": "assistant", "content": None, "tool_calls": calls})
            found = _said("tool", chance)
            written.append(found | {"tool_call_id": call, "name": "find_booking"})
        written.append(_said("assistant", chance))
    return Run(name=f"run-{number}", messages=tuple(written))


def _said(role: str, chance: random.Random) -> Message:
    words: list[str] = []
    size = SIZES[role] * chance.uniform(0.4, 1.6)
    while sum(map(len, words)) + len(words) < size:
        words.append(chance.choice(WORDS))
    return {"role": role, "content": " ".join(words)}
