"""Canonical form of working memory: complete, small, and sorted everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from memoryhub.kernel import state_json
from memoryhub.kernel.memory import memory_json
from memoryhub.kernel.memory.checkpoints import DeleteCheckpoint
from memoryhub.kernel.memory.tasks import SetTask
from memoryhub.kernel.paging.page_commands import EvictPage, PinPage
from memoryhub.kernel.state.working_memory import WorkingMemory
from tests.kernel.remembered import delete, note, put, restore, take, wait
from tests.oracles.paging import SMALL, Bench, build_page, make


def build_grown_bench() -> Bench:
    """Build a bench with branches, joints, expiries, trimmed notes and page moves."""
    bench = Bench(**SMALL, auto_pin_turns=0, auto_pin_claims=False, max_notes=3)
    make(bench, *(build_page(f"p{number}") for number in range(1, 7)))
    for number in range(12):
        put(bench, f"k{number * 7 % 12}", number, seconds=10 + number)
    root = take(bench, "root")
    bench.do(SetTask(fields={"data": b"{}"}))
    note(bench, 5, 6)
    for page_id in ("p2", "p6", "p3", "p5", "p4"):
        bench.do(PinPage(page_id=page_id))
    middle = take(bench)
    bench.do(EvictPage(page_id="p1"))
    note(bench, 7, 8)
    delete(bench, "k3")
    take(bench, "leaf")
    restore(bench, middle, ("keys", "frames"))
    put(bench, "k5", None)
    wait(bench, 3)
    take(bench)
    restore(bench, root)
    put(bench, "other", "branch")
    bench.do(DeleteCheckpoint(target=middle))
    assert bench.state.memory.joints == 1
    return bench


def dump_state() -> str:
    bench = build_grown_bench()
    told = [recorded.event.model_dump(mode="json") for recorded in bench.log]
    return json.dumps([state_json.to_json(bench.state), told])


def test_memory_json_round_trips() -> None:
    memory = build_grown_bench().state.memory
    thread = build_grown_bench().state.id
    plain = json.loads(json.dumps(memory_json.to_json(memory, thread=thread)))
    assert memory_json.from_json(plain, thread=thread) == memory


def test_notes_restored_alone_round_trip() -> None:
    """The restored notes are fewer than those of the current checkpoint."""
    bench = Bench()
    note(bench, 1, 2)
    older = take(bench)
    note(bench, 3)
    newer = take(bench)
    restore(bench, older, ("notes",))
    assert bench.state.memory.base == newer
    before = bench.state
    bench.restart()
    assert bench.state == before


def test_empty_working_memory_writes_nothing() -> None:
    bench = Bench()
    assert memory_json.to_json(bench.state.memory, thread=bench.state.id) == {}
    assert memory_json.from_json({}, thread=bench.state.id) == WorkingMemory()


@pytest.mark.parametrize(
    "seeds", [(0, 1, 77), pytest.param(range(20), marks=pytest.mark.nightly)]
)
def test_memory_json_is_independent_of_iteration_order(seeds: Sequence[int]) -> None:
    """One journal under many hash seeds gives the same bytes of state and events."""
    program = (
        "from tests.kernel.memory import test_memory_json as t; print(t.dump_state())"
    )
    inherited = ":".join(path for path in sys.path if path)
    told = {
        subprocess.run(  # our own interpreter and text
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": inherited},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in seeds
    }
    assert told == {dump_state() + "\n"}


def test_hundred_checkpoints_cost_what_changed() -> None:
    """A checkpoint is written as its difference from its parent, not in full."""
    bench = Bench()
    for number in range(200):
        put(bench, f"k{number:03}")
    take(bench)
    one = size(bench)
    for number in range(100):
        put(bench, f"k{number:03}", 2)
        take(bench)
    assert size(bench) - one < 100 * 400


def size(bench: Bench) -> int:
    plain = memory_json.to_json(bench.state.memory, thread=bench.state.id)
    return len(json.dumps(plain))


def test_notes_are_written_once_whatever_holds_them() -> None:
    bench = Bench()
    for _ in range(50):
        note(bench, 9)
        take(bench)
    notes: list[Any] = []
    plain = memory_json.to_json(bench.state.memory, thread=bench.state.id)
    for row in plain["checkpoints"]:
        notes += row["contents"]["notes"][1]
    assert len(notes) == 50
