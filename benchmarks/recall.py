"""Recall: whether an agent gets back what it asks for, under budgets of any size.

A scripted agent looks things up, and asks at least ten exchanges later for a fact that
stands somewhere in a result. It counts as found only when the fact is in the request
that a model would be given: not in an answer of the tool, and not in a hint. First it
knows the page's id, and nothing is brought along; then it knows none, and has what the
turn brings along, and one search.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace

LOOK_UPS, LATER = 40, 10
TOKENS = (200, 6_000)
#: Budget and what of it is reserved.
BUDGETS = ((3_000, 800), (3_000, 1_500), (8_000, 2_000), (16_000, 4_000))
#: A result of 6,000 tokens is read in parts of what a budget of 3,000 has room for.
FAULTS = {"max_faults_per_turn": 8, "max_fault_tokens_per_turn": 16_384}
_NEXT = re.compile(r"next_offset (\d+)")


class Fact(NamedTuple):
    """Fact asked for, and the message that holds it."""

    slot: int
    question: str
    answer: str


@dataclass(slots=True)
class Desk:
    """Agent at work in one thread."""

    server: Server
    key: str
    thread: str
    slots: int = 0
    asked: int = 0
    found: int = 0
    #: Facts whose page the manifest offered when it was asked for.
    offered: int = 0
    #: Facts that the turn brought along by itself.
    brought: int = 0
    #: It remembers the ids of pages.
    knows: bool = True
    request: dict[str, Any] = field(default_factory=dict)
    calls: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))

    def turn(self, *said: dict[str, Any]) -> str:
        """Append these, begin a model call, and answer its messages' calls."""
        slots = [slot(each) for each in said]
        self.slots += len(slots)
        told: Any = self._post("turns", {"slots": slots})
        self.request = told["request"]
        return "\n".join(texts(self.request, hints=False))

    def say(self, *said: dict[str, Any]) -> int:
        """Append these without a model call; return the index of the last."""
        self._post("slots:batch", {"items": [slot(each) for each in said]})
        self.slots += len(said)
        return self.slots - 1

    def look_up(self, number: int, result: str) -> int:
        """Make an exchange with a tool of the agent's own; return the result index."""
        self.turn({"role": "user", "content": f"Please look up record {number}."})
        call = self._call("lookup", {"record": number})
        self.turn(
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": result},
        )
        kept = self.slots - 1
        self.say({"role": "assistant", "content": f"I have looked up record {number}."})
        return kept

    def ask(self, fact: Fact) -> None:
        """Ask for a fact, and fetch its page until a request has it."""
        self.asked += 1
        said = self.turn({"role": "user", "content": fact.question})
        page_id, offset = f"slot-{fact.slot}", -1
        hints = "\n".join(texts(self.request, hints=True))
        self.offered += f'"{page_id}"' in hints
        if not self.knows:
            self._search(fact, said)
            return
        for _ in range(FAULTS["max_faults_per_turn"]):
            if fact.answer in said:
                self.found += 1
                break
            arguments: dict[str, Any] = {"page_id": page_id, "target_level": 0}
            if offset >= 0:
                arguments["offset"] = offset
            call = self._call("page_fault", arguments)
            message: Any = self._post("tool-calls", call)
            said = self.turn(
                {"role": "assistant", "content": None, "tool_calls": [call]}, message
            )
            offset = _next(message["content"], offset)
        self.say({"role": "assistant", "content": "That is all I found."})

    def _search(self, fact: Fact, said: str) -> None:
        """Search once for what the turn has not brought along."""
        self.brought += fact.answer in said
        if fact.answer not in said:
            call = self._call("page_search", {"query": fact.question})
            message: Any = self._post("tool-calls", call)
            said = self.turn(
                {"role": "assistant", "content": None, "tool_calls": [call]}, message
            )
        self.found += fact.answer in said
        self.say({"role": "assistant", "content": "That is all I found."})

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        identity = f"call_{next(self.calls)}"
        return {"id": identity, "type": "function", "function": function}

    def _post(self, path: str, body: object) -> object:
        return self.server.post(f"/threads/{self.thread}/{path}", self.key, body)


def measure(pace: Pace) -> list[Figure]:
    """Measure facts that come back, at budgets from 3,000 tokens to 16,000."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            known = [
                _figure(server, key, budgets, what=what)
                for what in ("desk", "runs")
                for budgets in BUDGETS
            ]
            return [*known, *(_unknown(server, key, each) for each in BUDGETS)]


def _unknown(server: Server, key: str, budgets: tuple[int, int]) -> Figure:
    budget, reserved = budgets
    thread = f"unknown-{budget}-{reserved}"
    desk = Desk(server=server, key=key, thread=thread, knows=False)
    config = {"budget_tokens": budget, "reserved_tokens": reserved}
    server.send("PUT", f"/threads/{thread}", key, {"config": config})
    at_a_desk(desk, random.Random(budget + reserved))
    return Figure(
        question=f"facts of a desk found with no id, {budget:,} tokens, {reserved:,} "
        "reserved",
        value=100 * desk.found / desk.asked,
        unit=" %",
        goal=Goal(least=95),
        behind=f"{desk.found} of {desk.asked}: {desk.brought} came along, one search "
        f"for each other; the manifest offers {desk.offered}",
    )


def _figure(server: Server, key: str, budgets: tuple[int, int], *, what: str) -> Figure:
    budget, reserved = budgets
    desk = Desk(server=server, key=key, thread=f"{what}-{budget}-{reserved}")
    sizes = {"budget_tokens": budget, "reserved_tokens": reserved}
    config = {**sizes, "recall": "off", **FAULTS}
    server.send("PUT", f"/threads/{desk.thread}", key, {"config": config})
    play = at_a_desk if what == "desk" else over_runs
    play(desk, random.Random(budget + reserved))
    share = 100 * desk.found / desk.asked
    where = "of a desk" if what == "desk" else f"of {messages.source()} runs"
    return Figure(
        question=f"facts {where} found again, {budget:,} tokens, {reserved:,} reserved",
        value=share,
        unit=" %",
        goal=Goal(least=100),
        behind=f"{desk.found} of {desk.asked}; the manifest alone offers "
        f"{desk.offered}",
    )


def at_a_desk(desk: Desk, dice: random.Random) -> None:
    """Ask about look-ups of 200 to 6,000 tokens, about ten exchanges later."""
    waiting: list[Fact] = []
    for number in range(LOOK_UPS):
        text, fact = _record(number, dice)
        slot = desk.look_up(number, text)
        waiting.append(fact._replace(slot=slot))
        if len(waiting) > LATER:
            desk.ask(waiting.pop(0))


def over_runs(desk: Desk, dice: random.Random) -> None:
    """Ask about members of tools' answers, over recorded runs one after the other."""
    waiting: list[tuple[int, Fact]] = []
    exchanges = 0
    for run in messages.runs():
        for message in run.messages:
            if message.get("role") == "system":
                continue
            exchanges += message.get("role") == "user"
            slot = desk.say(dict(message))
            if message.get("role") == "tool" and (fact := _member(message, dice)):
                waiting.append((exchanges, fact._replace(slot=slot)))
        while waiting and waiting[0][0] + LATER <= exchanges:
            _, fact = waiting.pop(0)
            if dice.random() < 0.2:
                desk.ask(fact)
        if desk.asked >= LOOK_UPS:
            return


def _record(number: int, dice: random.Random) -> tuple[str, Fact]:
    """Build a text of many lines, one of which will be asked for."""
    code = str(dice.randrange(10**9, 10**10))
    lines = [f"Record {number}."]
    size = dice.randint(*TOKENS)
    while len(lines) * 13 < size:
        rest = dice.randrange(10**6)
        lines.append(f"Line {len(lines)} of record {number} has the value {rest}.")
    lines[dice.randrange(len(lines))] = f"The code of record {number} is {code}."
    question = f"What is the code of record {number}?"
    return "\n".join(lines), Fact(0, question, code)


def _member(message: messages.Message, dice: random.Random) -> Fact | None:
    """Return a longer word of a tool's answer, from any place of it."""
    words = re.findall(r"\w{7,}", str(message.get("content")))
    if not words:
        return None
    word = dice.choice(words)
    return Fact(0, "What did that tool say back then?", word)


def _next(told: str, offset: int) -> int:
    """Return the offset to read on from; the start where the whole was refused."""
    if found := _NEXT.search(told.partition("\n\n")[0]):
        return int(found[1])
    return max(offset, 0)


def slot(message: dict[str, Any]) -> dict[str, Any]:
    role = message["role"]
    return {
        "from": role,
        "to": "memory",
        "type": f"chat.{role}",
        "role": role,
        "content": message,
    }


def texts(request: dict[str, Any], *, hints: bool) -> Iterator[str]:
    """Yield the texts of a request's messages without hints, or the hints alone."""
    lists = set[str]()
    for message in request["messages"]:
        for call in message.get("tool_calls") or ():
            if call["function"]["name"] == "page_list":
                lists.add(call["id"])
        text = message.get("content")
        if not isinstance(text, str):
            continue
        if (message.get("tool_call_id") in lists) == hints:
            yield text
