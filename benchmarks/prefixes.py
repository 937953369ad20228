"""Prefixes: how much of each request begins as the one before it did.

The recorded runs follow one another in one thread; a turn begins before each answer.
With what turns bring along unasked, without, and with the same put into the head, where
it changes all that stands behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
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
            on, off = (
                [*_requests(server, key, f"/threads/{scope}", scope)]
                for scope in ("thread", "off")
            )
    without, in_head = zip(*map(_moved, on), strict=True)
    shares = [_share(requests) for requests in (on, off, without, in_head)]
    return [
        Figure(
            question=f"share of a request's messages that is as before, "
            f"{messages.source()} runs in one thread, {BUDGET:,} tokens",
            value=shares[0],
            unit=" %",
            goal=Goal(least=LEAST),
            behind=f"{len(on):,} requests; tools stand ahead of messages in a cache",
        ),
        Figure(
            question="points of it that bringing texts along costs",
            value=shares[1] - shares[0],
            unit="",
            goal=Goal(most=1),
            behind=f"of all other texts {shares[1] - shares[2]:.1f}; put into the head "
            f"it would cost {shares[1] - shares[3]:.1f}",
        ),
    ]


def _share(requests: Iterable[list[Any]]) -> float:
    texts = [json.dumps(each) for each in requests]
    common = sum(_common(*two) for two in pairwise(texts))
    return 100 * common / sum(map(len, texts[1:]))


def _moved(said: list[Any]) -> tuple[list[Any], list[Any]]:
    """A request without what was brought along, and with that in its first message."""
    for place, each in enumerate(said):
        for call in each.get("tool_calls", ()):
            if call["function"]["name"] == "page_search":
                head, text = said[0], said[place + 1]["content"]
                first = {**head, "content": f"{head['content']}\n\n{text}"}
                others = [*said[1:place], *said[place + 2 :]]
                return [head, *others], [first, *others]
    return said, said


def _common(before: str, after: str) -> int:
    return sum(takewhile(bool, map(eq, before, after)))


def _requests(server: Server, key: str, thread: str, scope: str) -> Iterator[list[Any]]:
    """The messages of each request; the runs have one prompt, which is said once."""
    config = {"budget_tokens": BUDGET, "recall": scope}
    server.send("PUT", thread, key, {"config": config})
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
