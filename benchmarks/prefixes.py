"""Prefixes: how much of each request begins as the one before it did.

The recorded runs follow one another in one thread; a turn begins before each answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise, takewhile
from operator import eq
from typing import Any

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.recall import slot

BUDGET = 16_000
LEAST = 78


def measure(pace: Pace) -> list[Figure]:
    """Measure the share that a provider can take from its cache."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            return [_figure(server, key)]


def _figure(server: Server, key: str) -> Figure:
    thread = "/threads/joined"
    server.send("PUT", thread, key, {"config": {"budget_tokens": BUDGET}})
    requests = [json.dumps(each) for each in _requests(server, key, thread)]
    common = sum(_common(*two) for two in pairwise(requests))
    return Figure(
        question=f"share of a request's messages that is as before, "
        f"{messages.source()} runs in one thread, {BUDGET:,} tokens",
        value=100 * common / sum(map(len, requests[1:])),
        unit=" %",
        goal=Goal(least=LEAST),
        behind=f"{len(requests):,} requests; tools stand ahead of messages in a cache",
    )


def _common(before: str, after: str) -> int:
    return sum(takewhile(bool, map(eq, before, after)))


def _requests(server: Server, key: str, thread: str) -> Iterator[list[Any]]:
    """The messages of each request; the runs have one prompt, which is said once."""
    waiting: list[dict[str, Any]] = []
    for number, run in enumerate(messages.runs()):
        for message in run.messages:
            if message["role"] == "system" and number:
                continue
            if message["role"] == "assistant":
                told: Any = server.post(f"{thread}/turns", key, {"items": waiting})
                yield told["request"]["messages"]
                waiting = []
            waiting.append(slot(dict(message)))
