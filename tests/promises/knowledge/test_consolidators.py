"""Consolidation by two processes that are killed: each exchange is learnt from once."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from memoryhub_client import Client, episodes, subjects, threads
from tests.cast import scripted_model
from tests.cast.scripted_model import Reply, ScriptedModel, saying
from tests.harness.forks import Process
from tests.harness.instances import Instance, free_port
from tests.promises.conftest import MAKE_KEY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ACTS = "tests.promises.knowledge.consolidating"
PEOPLE, TALKS, EXCHANGES = 3, 2, 3
NUMBERS = range(PEOPLE * TALKS * EXCHANGES)
SECONDS = 90

#: Fates of the questions about an exchange, in turn; later ones are answered.
FATES: tuple[tuple[str, ...], ...] = (
    ("slow",),
    ("busy",),
    ("garbage",),
    ("garbage", "garbage"),
    ("reset",),
    ("kill",),
    ("garbage", "kill", "slow"),
)
DEEDS = {
    "busy": Reply(status=429, headers=("Retry-After: 1",)),
    "garbage": saying("I would rather not."),
    "reset": Reply(deed="reset"),
    "kill": Reply(deed="reset"),
}


@dataclass
class Pair:
    """Two processes that do background work, and are started again when killed."""

    instance: Instance
    model: ScriptedModel
    stack: ExitStack
    commands: Sequence[Sequence[str]]
    processes: dict[str, Process] = field(default_factory=dict)
    #: Asking processes by exchange.
    asked: defaultdict[int, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    killed: int = 0
    #: Function that the processes run.
    acts: str = ACTS

    def go_on(self) -> None:
        for number, words in enumerate(self.commands):
            key = f"worker-{number}"
            running = self.processes.get(key)
            if running is None or running.poll() is not None:
                env = self.model.env(key)
                begun = self.instance.start(f"{self.acts}:work", *words, **env)
                self.processes[key] = self.stack.enter_context(begun)

    def reply(self, key: str, question: dict[str, Any]) -> Reply:
        """Reply by the exchange's number and by how often it was asked about."""
        text = question["messages"][1]["content"]
        number = int(re.findall(r"#(\d+)#", text)[0])
        claim = {"entity": "user", "predicate": "knows", "value": f"#{number}"}
        fate = self.fate(key, number, FATES[number % len(FATES)])
        return DEEDS.get(fate) or saying(json.dumps([claim]))

    def fate(self, key: str, number: int, fates: Sequence[str]) -> str:
        """Apply the next of `fates` to the asking process; answer after the last."""
        count = len(self.asked[number])
        self.asked[number].append(key)
        fate = fates[count] if count < len(fates) else "answer"
        if fate == "kill":
            # It has asked, and has written nothing yet.
            self.processes[key].kill()
            self.killed += 1
        # Longer than a lease lasts here.
        time.sleep(2 if fate == "slow" else 0.1)
        return fate

    def left(self) -> list[int]:
        left: list[int] = json.loads(self.instance.call(f"{self.acts}:count_left"))
        return left

    def finish(self) -> None:
        """Let the processes work until nothing is left, however often killed."""
        until = time.monotonic() + SECONDS
        self.go_on()
        while any(left := self.left()):
            assert time.monotonic() < until, (left, self.asked)
            self.go_on()
            time.sleep(0.2)
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(timeout=30)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model.running() as running:
        yield running


@pytest.mark.promise("learnt", load="18 exchanges × 2 processes, 4 kills")
@pytest.mark.parametrize("kind", ["worker", "serve"])
def test_each_exchange_is_learnt_from_exactly_once(
    instance: Instance, model: ScriptedModel, kind: str
) -> None:
    """Answers are slow, busy, babbling and broken, and kills come before the commit."""
    instance.call(f"{ACTS}:live_in_talks", PEOPLE, TALKS, EXCHANGES)
    first = (kind, f"--port={free_port()}") if kind == "serve" else (kind,)
    with ExitStack() as stack:
        pair = Pair(instance, model, stack, [first, ("worker",)])
        model.replies = pair.reply
        pair.finish()
    found = json.loads(instance.call(f"{ACTS}:show"))
    assert len(found["done"]) == len(NUMBERS)
    assert {*found["done"].values()} == {1}
    assert found["facts"] == {f"#{number}": 1 for number in NUMBERS}
    # It was not easy.
    assert pair.killed >= 3
    assert any(len({*askers}) > 1 for askers in pair.asked.values())
    assert found["failed"]
    instance.managed("verify", "--all")


def test_request_over_http_asks_the_model_once_in_a_manual_project(
    instance: Instance, model: ScriptedModel
) -> None:
    claim = {"entity": "user", "predicate": "likes", "value": "tea"}
    model.replies = lambda key, question: saying(json.dumps([claim]))
    key = instance.call(MAKE_KEY, "acme").strip()
    with (
        instance.serve(**model.env()) as served,
        closing(Client(served.url, key)) as hub,
    ):
        hub.send(threads.put("talk", user_id="ann"))
        ann = hub.send(subjects.resolve("ann"))["id"]
        for word in ("milk", "tea", "rye"):
            hub.send(
                episodes.remember(
                    ann, thread="talk", input=f"I like {word}.", output="Noted."
                )
            )
        twice = [hub.send(episodes.consolidate(ann, limit=1)) for _ in range(2)]
        assert [len(each["items"]) for each in twice] == [1, 0]
        until, pending = (
            time.monotonic() + SECONDS,
            episodes.list_all(ann, consolidation="pending"),
        )
        while len(left := [*hub.each(pending)]) > 2:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert [each["index"] for each in left] == [4, 0]
        (learnt,) = hub.each(episodes.list_all(ann, consolidation="consolidated"))
        assert [each["value"] for each in learnt["facts"]] == ["tea"]
    assert len(model.asked) == 1
    instance.managed("verify", "--all")
