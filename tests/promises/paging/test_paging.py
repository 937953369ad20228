"""Paging by several writers: the same folded state, TLB and counters."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness.forks import Process
from tests.harness.instances import Instance
from tests.promises.journal.clients import Client

pytestmark = pytest.mark.timeout(600)

PROGRAM = "tests.promises.paging.pagers"
#: All that is told of how a thread pages.
TOLD = ("", "/working-set", "/tlb", "/paging", "/manifest", "/pages", "/turns")
#: So small that pages are evicted, and so few faults that the budget shows.
SMALL = {
    "budget_tokens": 4_000,
    "reserved_tokens": 1_000,
    "max_faults_per_turn": 5,
    "auto_pin_turns": 0,
}


def paged(process: Process, number: int) -> str:
    """Return a process's reply to the command of that number."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def show_thread(instance: Instance, thread: str) -> tuple[object, str]:
    told = instance.call(f"{PROGRAM}:show", "acme", thread).splitlines()
    return json.loads(told[-2]), told[-1]


@pytest.mark.promise("P11", load="2 processes by turns and a kill, {commands} commands")
@pytest.mark.parametrize(
    "commands", [120, pytest.param(1_000, marks=pytest.mark.nightly)]
)
def test_paging_is_coherent_across_processes_and_kills(
    instance: Instance, commands: int
) -> None:
    """Two processes, one of them killed half-way, page to the same state as one does.

    Each thread gets the same commands; one thread has them all from a single process.
    """
    instance.call(f"{PROGRAM}:make", "acme", ["shared", "alone"])
    with ExitStack() as stack:

        def start(thread: str) -> Process:
            process = stack.enter_context(
                instance.start(f"{PROGRAM}:page_thread", "acme", thread)
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
            return process

        single, pair = start("alone"), [start("shared"), start("shared")]
        for number in range(commands):
            if number == commands // 2:
                pair[0].kill()
                pair[0] = start("shared")
            assert paged(pair[number % 2], number) == paged(single, number)
    state, counters = show_thread(instance, "shared")
    assert (state, counters) == show_thread(instance, "alone")
    hits, misses, faults, evictions = map(int, counters.split())
    assert min(hits, misses, faults, evictions) > 0


@pytest.mark.promise("P1", load="frames, hot list, TLB, pins, turn, budgets, counters")
def test_paging_state_survives_a_kill(instance: Instance) -> None:
    """State told before a kill -9 is told after it and goes on from there."""
    key = instance.call("tests.promises.journal.appender:make_key").strip()
    with instance.serve() as server, Client(server.port, key) as client:
        client.put("/threads/trip", {"config": SMALL})
        page_about(client)
        before = told(client)
        counters = before["/paging"]["total"]
        assert min(counters[name] for name in ("hits", "faults", "evictions")) > 0
        left = before["/manifest"]["policies"]["faults_left"]
        assert 0 < left < 4
        server.kill()
    with instance.serve() as server, Client(server.port, key) as client:
        assert told(client) == before
        # What was spent of this exchange's faults is spent.
        answers = [fault(client, n) for n in range(left + 1)]
    assert answers == [200] * left + [429]


def page_about(client: Client) -> None:
    """Play two turns with pages that are evicted, come back and are pinned."""
    for turn in range(2):
        said = {"from": "user", "to": "agent", "type": "chat.user", "content": "Go on."}
        assert client.post("/threads/trip/turns", {"items": [said]}).status == 201
        for n in range(4):
            text = f"Page {n} of turn {turn} says a good deal about its fares. " * 20
            body = {"type": "artifact", "modality": "text", "content": {"text": text}}
            made = {**body, "page_id": f"page-{turn}-{n}"}
            assert client.post("/threads/trip/pages", made).status == 201
    pinned = client.post("/threads/trip/pages/page-1-0/pin", {})
    assert pinned.status == 200, pinned
    for n in (1, 2, 1):
        fault(client, n)


def fault(client: Client, n: int) -> int:
    """Fetch a page of the first turn back, from wherever it is."""
    client.post(f"/threads/trip/pages/page-0-{n}/evict", {})
    answer = client.post(f"/threads/trip/pages/page-0-{n}/fault", {"level": 0})
    return answer.status


def told(client: Client) -> dict[str, Any]:
    answers = {part: client.get(f"/threads/trip{part}") for part in TOLD}
    assert {answer.status for answer in answers.values()} == {200}
    return {part: answer.body for part, answer in answers.items()}
