"""LoCoMo, observed: whether a request still shows what its question is about.

Each conversation of LoCoMo (see `locomo`) is said in one thread under a window of 8,000
tokens, a turn for every twenty messages, by a user and an agent. Questions are asked in
forks of it: with its log of observations, made without a model, with what a turn brings
along unasked, with both, and beside what truncation leaves. Evidence counts where it
stands word for word in a message of the request, hints left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks import locomo, recall
from benchmarks.figures import Figure, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.locomo import Spoken, Talk

#: What frames and the log may take together, and what rules and hints take beside it.
WINDOW, RESERVED = 8_000, 2_000
#: Messages of a turn; of the questions one in so many is asked.
TOGETHER, EVERY, QUICK = 20, 8, 20
_WAYS = {
    "the log": {"observe": True, "recall": "off"},
    "what turns bring along": {"observe": False, "recall": "thread"},
    "both": {"observe": True, "recall": "thread"},
}
_ROW = re.compile(r"^- .* \[(\d+)\]$", re.MULTILINE)


class Found(NamedTuple):
    """Share of a question's evidence that a request shows."""

    whole: float
    #: Or has a line of its own in the log.
    partly: float


def measure(pace: Pace) -> list[Figure]:
    """Ask the questions of LoCoMo in observed threads."""
    talks = locomo.talks()[: 1 if pace.quick else None]
    if not talks:
        return []
    every = QUICK if pace.quick else EVERY
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            ways = {
                way: [
                    found
                    for number, talk in enumerate(talks)
                    for found in _ask(
                        server, key, f"{number}-{place}", talk, config, every=every
                    )
                ]
                for place, (way, config) in enumerate(_WAYS.items())
            }
    newest = fmean(
        locomo.share(ranked, WINDOW)
        for talk in talks
        for ranked in [*locomo.newest(talk)][::every]
    )
    return [_figure(way, found, newest) for way, found in ways.items()]


def _figure(way: str, found: Sequence[Found], newest: float) -> Figure:
    partly = fmean(each.partly for each in found)
    return Figure(
        question=f"LoCoMo, {WINDOW:,} tokens: evidence in a request with {way}",
        value=fmean(each.whole for each in found),
        unit="",
        behind=f"{len(found)} of the questions; in a line of its own at least "
        f"{partly:.3f}; the newest messages {newest:.3f}",
    )


def _ask(
    server: Server,
    key: str,
    name: str,
    talk: Talk,
    chosen: dict[str, Any],
    *,
    every: int,
) -> Iterator[Found]:
    sizes = {"budget_tokens": WINDOW + RESERVED, "reserved_tokens": RESERVED}
    config = {**sizes, **chosen}
    thread = f"/threads/talk-{name}"
    # Nobody asks before all is said: until then nothing need be brought along.
    told = {"config": {**config, "recall": "off"}}
    server.send("PUT", thread, key, told)
    user = talk.messages[0].sender
    for start in range(0, len(talk.messages), TOGETHER):
        said = talk.messages[start : start + TOGETHER]
        items = [
            _slot(each, "user" if each.sender == user else "assistant") for each in said
        ]
        server.post(f"{thread}/turns", key, {"items": items})
    for number, (question, evidence) in [*enumerate(talk.questions)][::every]:
        # In a fork: no question may find another one.
        fork = f"asked-{name}-{number}"
        server.post(f"{thread}:fork", key, {"thread": fork, "config": config})
        yield _found(_begin(server, key, fork, question), talk, evidence)


def _begin(server: Server, key: str, thread: str, question: str) -> str:
    """Begin a turn with a question; return the request's texts without it and hints."""
    asked = {"from": "user", "to": "assistant", "type": "chat.user", "role": "user"}
    item = {**asked, "content": {"role": "user", "content": question}}
    turn: Any = server.post(f"/threads/{thread}/turns", key, {"items": [item]})
    return "\n".join(recall.texts(turn["request"], hints=False))


def _found(text: str, talk: Talk, evidence: set[str]) -> Found:
    lines = {int(slot) for slot in _ROW.findall(text)}
    wanted = [
        (slot, each) for slot, each in enumerate(talk.messages) if each.name in evidence
    ]
    whole = [each.text in text for _, each in wanted]
    own = [slot in lines for slot, _ in wanted]
    partly = [one or other for one, other in zip(whole, own, strict=True)]
    return Found(fmean(whole), fmean(partly))


def _slot(message: Spoken, role: str) -> dict[str, Any]:
    return {
        "from": message.sender,
        "to": "memory",
        "type": f"chat.{role}",
        "role": role,
        "content": {"role": role, "content": message.text},
        "agent_at": message.at.isoformat(),
    }
