"""Working memory: every command beside a plain model, and what holds after each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.memory.tasks import TASK, TASK_FIELDS, Task
from memoryhub.kernel.state.state import MAX_FORK_DEPTH
from memoryhub.kernel.state.working_memory import (
    AUTOMATIC_KEPT,
    Contents,
    WorkingMemory,
)
from tests.oracles.memory_lives import LIMITS, Lives
from tests.oracles.memory_model import Model, Things
from tests.oracles.paging import Bench


class Threads(Lives):
    """A thread of the kernel's, and now and then a fork that goes on in its place."""

    bench: Bench

    @initialize(chosen=st.fixed_dictionaries({}, optional=LIMITS))
    def create(self, chosen: dict[str, Any]) -> None:
        self.bench = Bench(**chosen)
        self.model = Model(clock=self.bench.state.clock)
        self.limit(chosen)
        self.forks = 0

    def carry_out(self, command: Any) -> Sequence[Any]:
        return self.bench.do(command)

    def now(self) -> datetime:
        return self.bench.at

    def let_pass(self, seconds: int) -> None:
        self.bench.at += timedelta(seconds=seconds)

    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @rule()
    def fork(self) -> None:
        if self.forks >= MAX_FORK_DEPTH:
            return
        self.forks += 1
        at, config = self.bench.at, self.bench.state.config.model_dump()
        self.bench = self.bench.fork(thread=self.forks + 1, **config)
        self.bench.at = at
        self.model.inherited = self.model.clock
        self.model.clock += 1

    @invariant()
    def the_model_agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        state, model = self.bench.state, self.model
        model.at = max(self.bench.at, state.at or self.bench.at)
        assert state.clock == model.clock
        assert_same(state.memory.contents, model.things, model)
        points = {each.clock: each for each in state.memory.list_live()}
        assert {*points} == {*model.points}
        for clock, point in model.points.items():
            assert (points[clock].name, points[clock].auto) == (point.name, point.auto)
            assert_same(points[clock].contents, point.things, model)

    @invariant()
    def the_invariants_hold(self) -> None:
        if hasattr(self, "model"):
            assert_sound(self.bench.state.memory)
            assert_values_are_there(self.bench.state.memory, self.model)

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            assert self.bench.refolded() == self.bench.state
            self.bench.restart()
            assert self.bench.refolded() == self.bench.state


def assert_same(contents: Contents, things: Things, model: Model) -> None:
    """Assert that visible keys, task and notes are those of the model."""
    shown = contents.list_visible(model.at)
    assert {
        name: (each.value, each.version, each.expires_at, each.bytes)
        for name, each in shown.items()
    } == {
        name: (each.value, each.version, each.until, each.size)
        for name, each in model.visible(things).items()
    }
    assert list(shown) == sorted(shown)
    assert TASK.get(contents) == (_build_task(things.task) if things.task else None)
    assert [note.clock for note in NOTES.get(contents).lines] == [
        c for c, _ in things.notes
    ]


def _build_task(plain: dict[str, Any]) -> Task:
    """Build the kernel's task, which refers to texts by the clocks of its fields."""
    fields = {name: plain[name] and plain[name][0] for name in TASK_FIELDS}
    merged: dict[str, Any] = dict(plain) | dict(fields)
    return Task(**merged)


def assert_sound(memory: WorkingMemory) -> None:
    """Recount sizes, counts and the tree of checkpoints."""
    live = memory.list_live()
    for contents in (memory.contents, *(each.contents for each in live)):
        assert contents.key_bytes == sum(each.bytes for each in contents.keys.values())
        assert NOTES.get(contents).bytes == sum(
            each.bytes for each in NOTES.get(contents).lines
        )
    automatic = [each.clock for each in live if each.auto]
    assert list(memory.automatic) == automatic
    assert len(automatic) <= AUTOMATIC_KEPT
    assert memory.taken == len(live) - len(automatic)
    assert dict(memory.names) == {each.name: each.clock for each in live if each.name}
    joints = [each for each in memory.checkpoints.values() if each.joint]
    assert memory.joints == len(joints) <= len(live)
    assert memory.weight == sum(
        map(checkpoint_tree.compute_weight, memory.checkpoints.values())
    )
    parents = [each.parent for each in memory.checkpoints.values()]
    for joint in joints:
        assert [*parents, memory.base].count(joint.clock) > 1
        assert joint.contents == Contents()
    assert_paths_tell_all(memory)


def assert_paths_tell_all(memory: WorkingMemory) -> None:
    """Assert that the path between any two points names all that differs."""
    points = [None, *(each.clock for each in memory.list_live())]
    for one in points:
        for other in points:
            here = checkpoint_tree.get_contents(memory, one).keys
            there = checkpoint_tree.get_contents(memory, other).keys
            full = {n for n in {*here, *there} if here.get(n) != there.get(n)}
            assert full <= {*checkpoint_tree.list_names_between(memory, one, other)}


def assert_values_are_there(memory: WorkingMemory, model: Model) -> None:
    """Assert that no visible entry, of now or a checkpoint, has an erased value."""
    everything = [memory.contents, *(each.contents for each in memory.list_live())]
    for contents in everything:
        shown = contents.list_visible(model.at)
        assert not {each.value for each in shown.values()} & model.erased


def test_working_memory_equals_its_model() -> None:
    run(examples=40, steps=30)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_working_memory_equals_its_model_at_length() -> None:
    run(examples=1_500, steps=60)


def run(*, examples: int, steps: int) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(Threads, settings=chosen)
