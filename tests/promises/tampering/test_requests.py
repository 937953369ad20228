"""P6 and P7: one effect per Idempotency-Key, and no update is lost."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from tests.harness.instances import UNLIMITED
from tests.promises.conftest import Own
from tests.promises.journal.clients import Answer, Client, at_once

pytestmark = pytest.mark.timeout(600)


def list_contents(client: Client, thread: str) -> list[Any]:
    items: list[Any] = []
    path = f"/threads/{thread}/slots?limit=200"
    answer = client.get(path)
    while True:
        items += answer.body["items"]
        after = answer.body.get("next")
        if not after:
            return [item["content"] for item in items]
        answer = client.get(f"{path}&after={after}")


@pytest.mark.promise("P6", load="{clients} clients × {keys} keys")
@pytest.mark.parametrize(
    ("clients", "keys"), [(25, 20), pytest.param(50, 100, marks=pytest.mark.nightly)]
)
def test_idempotency_key_has_one_effect(own: Own, clients: int, keys: int) -> None:
    """All clients send the same requests, each in an order of its own."""

    def send(client: Client, number: int) -> list[tuple[int, Answer]]:
        order = random.Random(number).sample(range(keys), keys)  # a seed repeats it
        return [(each, send_message(client, each)) for each in order]

    def send_message(client: Client, each: int, text: str = "message") -> Answer:
        return client.append("t-1", f"{text} {each}", Idempotency_Key=f"key-{each}")

    answers = at_once(send, clients=clients, port=own.server.port, key=own.key)
    with own.client() as client:
        other = [send_message(client, each, text="another") for each in range(keys)]
        stored = list_contents(client, "t-1")
    by_key: dict[int, list[Answer]] = defaultdict(list)
    for each, answer in (pair for one in answers for pair in one):
        by_key[each].append(answer)
    assert sorted(stored) == sorted(f"message {each}" for each in range(keys))
    for each, given in by_key.items():
        assert {answer.status for answer in given} == {201}
        assert {answer.raw for answer in given} == {given[0].raw}
        assert stored[given[0].body["index"]] == f"message {each}"
        firsts = [a for a in given if "idempotent-replayed" not in a.headers]
        assert len(firsts) == 1
    assert {(answer.status, answer.body["code"]) for answer in other} == {
        (422, "idempotency_mismatch")
    }


@pytest.mark.promise("P6", load="2 processes, {clients} clients × {keys} keys")
@pytest.mark.nightly
@pytest.mark.parametrize(("clients", "keys"), [(16, 100)])
def test_idempotency_key_has_one_effect_across_two_processes(
    own: Own, clients: int, keys: int
) -> None:
    """Two processes are sent the same requests in the same order, at once."""

    def send(client: Client, number: int) -> list[bytes]:
        requests = [
            client.append("t-1", each, Idempotency_Key=f"key-{each}")
            for each in range(keys)
        ]
        assert {answer.status for answer in requests} == {201}
        return [answer.raw for answer in requests]

    with own.instance.serve(**UNLIMITED) as other:
        ports = [own.server.port, other.port] * (clients // 2)
        answers = at_once(send, clients=clients, ports=ports, key=own.key)
    with own.client() as client:
        stored = list_contents(client, "t-1")
    assert sorted(stored) == list(range(keys))
    assert [each for each in answers if each != answers[0]] == []


def increment(client: Client) -> bool:
    """Read the newest number and append the next one on the condition of no change."""
    seq = client.get("/threads/t-1").body["seq"]
    newest = client.get("/threads/t-1/slots?start=-1").body["items"][0]["content"]
    answer = client.append("t-1", newest + 1, If_Match=str(seq))
    assert (answer.status, answer.body.get("code")) in {(201, None), (409, "stale")}
    return answer.status == 201


@pytest.mark.promise("P7", load="{clients} clients × {attempts} compare-and-set")
@pytest.mark.parametrize(
    ("clients", "attempts"),
    [(8, 30), pytest.param(8, 500, marks=pytest.mark.nightly)],
)
def test_conditional_writes_lose_no_update(
    own: Own, clients: int, attempts: int
) -> None:
    """Under compare-and-set, the counter's sum is the number of successes."""

    def count(client: Client, number: int) -> int:
        return sum(increment(client) for _ in range(attempts))

    with own.client() as client:
        client.append("t-1", 0)
        told = at_once(count, clients=clients, port=own.server.port, key=own.key)
        stored = list_contents(client, "t-1")
    successes = sum(told)
    assert stored == list(range(successes + 1))
    # A conflict is everyday life: nothing louder than INFO.
    lines = [
        line for line in own.instance.log.read_text().splitlines() if line[:1] == "{"
    ]
    assert {json.loads(line)["level"] for line in lines} == {"info"}


@pytest.mark.promise("P7", load="2 writers of different fields × 40")
def test_amendments_of_two_writers_are_both_kept(
    own: Own,
) -> None:
    """Each writer changes its own field again and again while the other does."""

    def amend(client: Client, number: int) -> set[int]:
        changes = [
            {"labels": {"n": n}} if number == 0 else {"config": {"max_slots": n}}
            for n in range(1, 41)
        ]
        return {client.send("PATCH", "/threads/t-1", each).status for each in changes}

    with own.client() as client:
        client.put("/threads/t-1", {})
        statuses = at_once(amend, clients=2, port=own.server.port, key=own.key)
        thread = client.get("/threads/t-1").body
    assert statuses == [{200}, {200}]
    assert (thread["labels"], thread["config"]["max_slots"]) == ({"n": 40}, 40)
    assert thread["seq"] == 81
