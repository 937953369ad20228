"""Clients that use keys as registers, and record the answers."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from math import inf
from typing import Any, Literal

from tests.promises.journal.clients import Answer, Client
from tests.promises.journal.linearizability import Operation, Word

Kind = Literal["get", "set", "create", "swap", "delete"]
KINDS: list[Kind] = ["get", "get", "get", "set", "set", "swap", "swap", "swap"]
KINDS += ["create", "delete"]
KEYS = ("x", "y")
#: A key of a thread.
Place = tuple[str, str]
Histories = dict[Place, list[Operation]]


@dataclass(slots=True)
class Meter:
    """Counter of operations that calls something at a given number."""

    at: int
    then: Callable[[], object]
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tick(self) -> None:
        with self.lock:
            self.count += 1
            due = self.count == self.at
        if due:
            self.then()


class Hand:
    """Client that goes on at the other server when its own is gone."""

    def __init__(
        self, number: int, ports: Sequence[int], key: str, dice: random.Random
    ) -> None:
        self.number = number
        self.ports = list(ports)
        self.key = key
        self.dice = dice
        self.client = Client(ports[0], key)
        self.told: Histories = defaultdict(list)
        #: Last seen word of each key, with its version.
        self.seen: dict[Place, tuple[int, Word]] = {}
        self.words = 0

    def run(self, threads: Sequence[str], each: int, meter: Meter) -> Histories:
        """Do so many operations on each thread, mixed."""
        for thread in self.dice.sample([*threads] * each, len(threads) * each):
            meter.tick()
            self.ask(self.dice.choice(KINDS), (thread, self.dice.choice(KEYS)))
        self.client.line.close()
        return self.told

    def ask(self, kind: Kind, place: Place) -> None:
        version, seen = self.seen.get(place, (0, None))
        if kind == "swap" and seen is None:
            kind = "get"
        self.words += 1
        word = f"{self.number}-{self.words}"
        called = time.monotonic()
        told: dict[str, Any] = {"kind": kind, "called": called, "returned": inf}
        told |= {"word": word} if kind in ("set", "create", "swap") else {}
        told |= {"seen": seen} if kind == "swap" else {}
        try:
            answer = self.send(kind, place, word, version)
        except (OSError, HTTPException):
            self.client.line.close()
            self.ports.reverse()
            self.client = Client(self.ports[0], self.key)
        else:
            # A refusal to serve says nothing of what became of it.
            if answer.status != 503:
                told |= {"returned": time.monotonic()}
                told |= self.learn(kind, place, word, answer)
        self.told[place].append(Operation(**told))

    def send(self, kind: Kind, place: Place, word: str, version: int) -> Answer:
        path = f"/threads/{place[0]}/keys/{place[1]}"
        if kind == "get":
            return self.client.get(path)
        if kind == "delete":
            return self.client.send("DELETE", path)
        condition = {
            "set": {},
            "create": {"If_None_Match": "*"},
            "swap": {"If_Match": str(version)},
        }[kind]
        return self.client.send("PUT", path, {"value": word}, **condition)

    def learn(
        self, kind: Kind, place: Place, word: str, answer: Answer
    ) -> dict[str, Any]:
        """Return what the operation did or found, read from the answer."""
        status, body = answer.status, answer.body
        if kind == "get":
            assert status in (200, 404), answer
            if status == 404:
                return {"found": None}
            self.seen[place] = (body["seq"], body["value"])
            return {"found": body["value"]}
        if kind == "delete":
            # 404 before the thread is made, which the first key does.
            assert status in (200, 404), answer
            return {"done": status == 200 and body["existed"]}
        if status == 409:
            assert body["code"] == {"create": "key_exists", "swap": "stale"}[kind]
            return {"done": False}
        assert status == (201 if kind == "create" else status) in (200, 201), answer
        self.seen[place] = (body["seq"], word)
        return {"done": True}


def play(
    ports: Sequence[int],
    key: str,
    *,
    threads: Sequence[str],
    seed: str,
    clients: int = 12,
    each: int = 30,
    kill: Callable[[], object] | None = None,
) -> Histories:
    """Run all clients at once, spread over the ports; half-way a server may die."""
    half = len(threads) * clients * each // 2
    meter = Meter(half if kill else -1, kill or bool)
    hands = [
        Hand(n, ports if n % 2 else ports[::-1], key, random.Random(f"{seed}/{n}"))
        for n in range(clients)
    ]
    found: Histories = defaultdict(list)
    with ThreadPoolExecutor(clients) as pool:
        for told in pool.map(lambda hand: hand.run(threads, each, meter), hands):
            for place, ops in told.items():
                found[place] += ops
    return found
