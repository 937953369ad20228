"""Foresight: page faults without and with what turns bring along unasked.

The recorded runs follow one another in one thread. Before each call of a tool the agent
reads the section of its policy that the tool needs, and the newest messages with the
identifiers of the call's arguments. A read is free if the request shows the page whole
or has recalled it, else it is a page fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.prefixes import QUICK
from benchmarks.recall import slot

BUDGET, RESERVED = 6_000, 1_500
#: Recorded runs that are played; all of them take an hour.
RUNS = 20
MOST = 5
#: No fault is refused: refused reads would count as none.
FAULTS = {"max_faults_per_turn": 100, "max_fault_tokens_per_turn": 500_000}
#: Heading of the section of the policy that the agent reads before a tool.
SECTIONS = {
    "book_reservation": "Book flight",
    "update_reservation_flights": "Modify flight",
    "update_reservation_baggages": "Modify flight",
    "update_reservation_passengers": "Modify flight",
    "cancel_reservation": "Cancel flight",
    "send_certificate": "Refund",
}
_WORD = re.compile(r"\w*\d\w*")
#: Characters of the shortest identifier.
SHORTEST = 6


def measure(pace: Pace) -> list[Figure]:
    """Measure the share of reads that are page faults."""
    runs = messages.runs()[: QUICK if pace.quick else RUNS]
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            return [_compare(server, key, runs)]


def _compare(server: Server, key: str, runs: Sequence[messages.Run]) -> Figure:
    sizes = {"budget_tokens": BUDGET, "reserved_tokens": RESERVED}
    off, on = (
        _play(server, key, f"/threads/{scope}", runs, recall=scope, **sizes)
        for scope in ("off", "thread")
    )
    brought, used = on["recall_brought"], on["recall_used"]
    came = ", ".join(
        f"{source} {used.get(source, 0)} of {n}" for source, n in brought.items()
    )
    return Figure(
        question=f"reads that are page faults with prefetch and pre-pass, "
        f"{len(runs)} {messages.source()} runs in one thread, {BUDGET:,} tokens",
        value=100 * on["fault_rate"],
        unit=" %",
        goal=Goal(most=MOST),
        behind=f"{100 * off['fault_rate']:.1f} % without: {off['faults']:,} faults, "
        f"with {on['faults']:,}; {off['faults'] + off['referenced']:,} reads; pages "
        f"brought along that were used: {came or 'none'}",
    )


def _play(
    server: Server,
    key: str,
    thread: str,
    runs: Sequence[messages.Run],
    **config: Any,
) -> dict[str, Any]:
    """Play the runs in a new thread; return its counts."""
    server.send("PUT", thread, key, {"config": {**config, **FAULTS}})
    _write_policy(server, key, thread, runs[0].messages[0])
    waiting, said = list[dict[str, Any]](), list[str]()
    for number, run in enumerate(runs):
        for message in run.messages:
            if message["role"] == "system" and number:
                continue
            if message["role"] == "assistant":
                server.post(f"{thread}/turns", key, {"items": waiting})
                waiting = []
                for page_id in dict.fromkeys(_needed(message, said)):
                    path = f"{thread}/pages/{page_id}/fault"
                    server.post(path, key, {"level": 0, "by": "model"})
            waiting.append(slot(dict(message)))
            said.append(json.dumps(message))
    counted: Any = server.send("GET", f"{thread}/paging", key, None)
    return dict(counted["total"])


def _write_policy(
    server: Server, key: str, thread: str, prompt: messages.Message
) -> None:
    """Write each section of the policy as a page."""
    found = dict(
        section.split("\n", 1) for section in str(prompt["content"]).split("\n## ")[1:]
    )
    for heading in dict.fromkeys(SECTIONS.values()):
        body = {
            "type": "procedure",
            "modality": "text",
            "content": {"text": found.get(heading, f"{heading}: {messages.PROSE}.")},
            "map": False,
        }
        server.send("PUT", f"{thread}/pages/{_name(heading)}", key, body)


def _name(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _needed(message: messages.Message, said: Sequence[str]) -> Iterator[str]:
    """Yield the pages that the agent reads before the calls of a message."""
    for call in message.get("tool_calls") or ():
        function = call["function"]
        if heading := SECTIONS.get(function["name"]):
            yield _name(heading)
        words = dict.fromkeys(_WORD.findall(function["arguments"]))
        for word in (each for each in words if len(each) >= SHORTEST):
            at = next((n for n in reversed(range(len(said))) if word in said[n]), None)
            if at is not None:
                yield f"slot-{at}"
