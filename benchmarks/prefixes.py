"""Prefixes: how much of each request begins as the one before it did.

The recorded runs follow one another in one thread; a turn begins before each answer.
With what turns bring along unasked, without, and with the same put into the head, where
it changes all that stands behind it. Then with fifty blocks of the person in the head,
one of which is edited once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from operator import eq
from typing import Any, NamedTuple

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.recall import slot

BUDGET = 16_000
LEAST = 78
BLOCKS = 50
_SECTION = re.compile("<VM:BLOCKS>.*?</VM:BLOCKS>")
#: Runs of a glance.
QUICK = 6


def measure(pace: Pace) -> list[Figure]:
    """Measure the share that a provider can take from its cache."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            runs = messages.runs()[: QUICK if pace.quick else None]
            on, off = (
                [*_requests(server, key, f"/threads/{scope}", scope, runs)]
                for scope in ("thread", "off")
            )
            blocks = _with_blocks(server, key, runs)
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
        _of_blocks(blocks, without=shares[0]),
    ]


class Blocked(NamedTuple):
    """Requests with blocks in the head."""

    requests: Sequence[list[Any]]
    #: The number of the first after the edit of one.
    edited: int
    #: Of the blocks' texts.
    tokens: int


def _of_blocks(blocked: Blocked, *, without: float) -> Figure:
    """Measure the cost of unchanged blocks, and the effect of an edit of one."""
    texts = [json.dumps(each) for each in blocked.requests]
    bare = [_SECTION.sub("", each) for each in texts]
    pairs, others = [*pairwise(texts)], [*pairwise(bare)]
    edit = pairs[blocked.edited - 1]
    still = [pair for pair in pairs if pair is not edit]
    share = _shared(still)
    return Figure(
        question=f"points of it that {BLOCKS} blocks of the person cost",
        value=without - share,
        unit="",
        goal=Goal(most=1),
        behind=f"texts of {blocked.tokens:,} tokens; {share:.1f} % with them, of "
        f"all other texts it costs {without - _shared(others):.1f}; when one of the "
        f"middle was edited {_shared([edit]):.1f} % of the next request is as before, "
        f"with it {_shared(pairs):.1f} % of all",
    )


def _share(requests: Iterable[list[Any]]) -> float:
    return _shared([*pairwise(json.dumps(each) for each in requests)])


def _shared(pairs: Sequence[tuple[str, str]]) -> float:
    common = sum(_common(*two) for two in pairs)
    return 100 * common / sum(len(after) for _, after in pairs)


def _moved(said: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return a request with the recalled texts moved into its first message."""
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


def _with_blocks(server: Server, key: str, runs: Sequence[messages.Run]) -> Blocked:
    """Build requests with blocks in the head, one of which is edited half-way."""
    person, tokens = {"user_id": "ann"}, 0
    server.send("PUT", "/threads/first", key, person)
    for number in range(BLOCKS):
        body = {
            "text": f"{number} trips were booked. {messages.PROSE}.",
            "description": f"What is known of habit {number}.",
        }
        path = f"/threads/first/blocks/habit-{number}"
        written: Any = server.send("PUT", path, key, body)
        tokens += written["tokens"]
    answers = [m for run in runs for m in run.messages if m["role"] == "assistant"]
    half, found = len(answers) // 2, list[list[Any]]()
    for request in _requests(server, key, "/threads/blocks", "thread", runs, **person):
        found.append(request)
        if len(found) == half:
            more = {"text": " A seat by the window is preferred."}
            path = f"/threads/first/blocks/habit-{BLOCKS // 2}/append"
            server.post(path, key, more)
    return Blocked(found, half, tokens)


def _requests(
    server: Server,
    key: str,
    thread: str,
    scope: str,
    runs: Sequence[messages.Run],
    **about: str,
) -> Iterator[list[Any]]:
    """Yield the messages of each request; the runs have one prompt, said once."""
    made = {**about, "config": {"budget_tokens": BUDGET, "recall": scope}}
    server.send("PUT", thread, key, made)
    waiting: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        for message in run.messages:
            if message["role"] == "system" and number:
                continue
            if message["role"] == "assistant":
                told: Any = server.post(f"{thread}/turns", key, {"items": waiting})
                yield told["request"]["messages"]
                waiting = []
            waiting.append(slot(dict(message)))
