"""P10 and all other working memory: two processes beside a plain model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from memoryhub.errors import Refusal
from memoryhub.kernel.memory.tasks import TASK_FIELDS
from memoryhub.kernel.registry import TYPES
from tests.harness.forks import Process
from tests.harness.instances import Instance
from tests.oracles.memory_lives import LIMITS, Lives
from tests.oracles.memory_model import Held, Model, Things
from tests.promises.memory.remembering import said

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Refused(Refusal):
    """A refusal of the other process."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code  # type: ignore[misc]  # it is any of them


class Hub:
    """Two processes that act as told, by turns."""

    def __init__(self, instance: Instance, stack: ExitStack) -> None:
        self.instance, self.stack = instance, stack
        self.at = BEGAN
        self.names = (f"t-{number}" for number in count(1))
        self.asked = 0
        self.restarts = 0
        instance.call("tests.promises.memory.remembering:make", "acme")
        self.processes = [self.start(), self.start()]

    def start(self) -> Process:
        program = self.instance.start(
            "tests.promises.memory.remembering:obey", "acme", MEMORYHUB_TESTING="1"
        )
        process = self.stack.enter_context(program)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    def restart(self) -> None:
        """Kill the process that was asked last, as a power failure would."""
        number = self.asked % 2
        self.restarts += 1
        self.processes[number].kill()
        self.processes[number].wait()
        self.processes[number] = self.start()

    def ask(self, word: str, thread: str, what: Any = None) -> Any:
        """Ask the process that was not asked last."""
        self.asked += 1
        process = self.processes[self.asked % 2]
        assert process.stdin is not None
        assert process.stdout is not None
        since = (self.at - EPOCH) // timedelta(microseconds=1) * 1_000
        process.stdin.write(said(since, word, thread, what) + "\n")
        process.stdin.flush()
        # Logs may stand before it.
        while (line := process.stdout.readline()).startswith('{"event"'):
            pass
        assert line, process.communicate()
        return json.loads(line)


class Processes(Lives):
    """Thread that two processes write to and read."""

    hub: ClassVar[Hub]
    #: Of processes, in all lives together.
    restarts: ClassVar[int]

    @initialize(chosen=st.fixed_dictionaries({}, optional=LIMITS))
    def create(self, chosen: dict[str, Any]) -> None:
        self.thread = next(self.hub.names)
        clock = self.hub.ask("create", self.thread, chosen)
        self.model = Model(clock=clock)
        self.limit(chosen)

    def carry_out(self, command: Any) -> Sequence[Any]:
        told = self.hub.ask("do", self.thread, command)
        self.hub.at += timedelta(seconds=1)
        if "code" in told:
            raise Refused(told["code"])
        return self.read(told["events"])

    def read(self, events: list[list[str]]) -> list[Any]:
        return [TYPES[kind].model_validate_json(text) for kind, text in events]

    def now(self) -> datetime:
        return self.hub.at

    def let_pass(self, seconds: int) -> None:
        self.hub.at += timedelta(seconds=seconds)

    @rule()
    def the_worker_passes(self) -> None:
        """Sweep, and check that all due values and no others are erased."""
        self.model.at = self.hub.at
        for event in self.read(self.hub.ask("sweep", self.thread)):
            if event.event_type == "keys.expired":
                self.model.swept(event)
            else:
                grace = timedelta()
                assert event.seqs == self.model.list_due_seqs(event.seqs, grace)
                self.model.erase(event.seqs)
        assert self.model.list_due_seqs(list(self.model.given), timedelta()) == []
        assert self.model.visible() == self.model.things.keys

    @rule()
    def a_process_forgets(self) -> None:
        self.hub.ask("forget", self.thread)

    @rule()
    def a_process_restarts(self) -> None:
        if self.hub.restarts < self.restarts:
            self.hub.restart()

    @invariant()
    def the_other_process_says_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        self.model.at = self.hub.at
        assert self.hub.ask("look", self.thread) == build_answers(self.model)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert self.hub.ask("verify", self.thread) == ""


def build_answers(model: Model) -> dict[str, Any]:
    """Build the answers that readers must give."""
    points = sorted(model.points.items())
    return {
        "keys": [
            _build_key(name, each) for name, each in sorted(model.visible().items())
        ],
        "notes": [[clock, json.loads(text)] for clock, text in model.things.notes],
        "task": _build_task(model.things),
        "checkpoints": [[clock, each.name, each.auto] for clock, each in points],
    }


def _build_key(name: str, held: Held) -> list[Any]:
    return [name, held.version, json.loads(held.text), held.size]


def _build_task(things: Things) -> dict[str, Any] | None:
    if things.task is None:
        return None
    said = {
        name: things.task[name] and json.loads(things.task[name][1])
        for name in TASK_FIELDS
        if name != "started_at"
    }
    return {name: things.task[name] for name in ("status", "version")} | said


@pytest.fixture
def hub(instance: Instance) -> Iterator[Hub]:
    with ExitStack() as stack:
        yield Hub(instance, stack)


@pytest.mark.promise("P10", load="2 processes, {examples} lives of {steps} commands")
@pytest.mark.parametrize(
    ("examples", "steps", "restarts"),
    [(8, 30, 1), pytest.param(300, 50, 100, marks=pytest.mark.nightly)],
)
def test_working_memory_equals_its_model_over_http(
    hub: Hub, examples: int, steps: int, restarts: int
) -> None:
    Processes.hub, Processes.restarts = hub, restarts
    chosen = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(Processes, settings=chosen)
