"""P25: a seed repeats a failure of a state machine, step by step."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.harness.instances import prepare_instance
from tests.promises.forget.faults import Fault, copy_sources, promised, run
from tests.promises.memory import seeded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEED, TIMES = 25, 3
#: The seed to begin with, in the environment.
ENV = "MEMORYHUB_TEST_SEED"
#: What a few lives must have seen done.
ACTS = {"say", "fault", "sweep", "erase", "take", "observe", "fork", "forget_person"}
LIVE, LIFE_SECONDS = "tests.promises.memory.seeded:live_part", 300
#: The machine as it is, but for the search of a shorter failure, which takes minutes.
MACHINE = """
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kernel.state.test_working_memory import Threads

PLAN = settings(max_examples=200, database=None, phases=[Phase.generate])


def test_working_memory() -> None:
    run_state_machine_as_test(Threads, settings=PLAN)
"""
#: A key is visible at its deadline, and not only before it.
ENDS_LATE = Fault(
    "memoryhub/kernel/state/working_memory.py",
    "now < self.expires_at",
    "now <= self.expires_at",
)
#: A row of a key stays when its time is over.
STAYS = Fault(
    "memoryhub/journal/rows/key_rows.py",
    "return [each.key for each in event.keys]",
    "return []",
)


@pytest.mark.promise("P25", load=f"a known fault in working memory, {TIMES} runs")
def test_seed_repeats_a_failure_of_working_memory(tmp_path: Path) -> None:
    folder = copy_sources(tmp_path / "copy", [ENDS_LATE])
    file = folder / "tests" / "promises" / "memory" / "test_seeded.py"
    file.write_text(MACHINE)
    told = []
    for _ in range(TIMES):
        ran = run(folder, f"--hypothesis-seed={SEED}", str(file))
        assert ran.code == 1, ran.output
        # Without arguments, for a set's order is that of the process; the rest is in
        # what Hypothesis prints to reproduce the failure.
        told.append(re.findall(r"\bstate\.\w+\(|reproduce_failure.*", ran.output))
    assert len(told[0]) > 2
    assert told == told[:1] * TIMES


@pytest.mark.promise("P25", load="{seeds} lives of 3 processes, each lived twice")
@pytest.mark.parametrize(
    "seeds",
    [3, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(14_400)])],
)
def test_seed_repeats_the_life_of_a_hub(tmp_path: Path, seeds: int) -> None:
    """After each act journals fold to the rows, as `seeded` asserts."""
    first, done = int(os.environ.get(ENV, "1")), set[str]()
    for seed in range(first, first + seeds):
        told = trace(tmp_path / f"{seed}", seed)
        again = trace(tmp_path / f"{seed}-again", seed)
        assert told == again, repeat_by(seed)
        done |= {line.split()[0] for line in told if ":" not in line}
    assert ENV in os.environ or done >= ACTS, ACTS - done


def trace(folder: Path, seed: int) -> list[str]:
    """Live a seed in a fresh instance; return each act, with the digest after it."""
    told = []
    with prepare_instance(folder) as instance:
        for part in range(seeded.PARTS):
            with instance.start(LIVE, seed, part, MEMORYHUB_TESTING="1") as process:
                out, errors = process.communicate(timeout=LIFE_SECONDS)
            killed = part + 1 < seeded.PARTS
            assert process.returncode == (-signal.SIGKILL if killed else 0), (
                f"{repeat_by(seed)}\n{out}\n{errors}"
            )
            told += [line for line in out.splitlines() if line[0] != "{"]
    return told


def repeat_by(seed: int) -> str:
    return f"seed {seed}; to repeat it: {ENV}={seed} pytest {__file__} -k life"


@pytest.mark.nightly
@pytest.mark.promise("P25", load="a known fault in rows", control=True)
def test_seed_repeats_the_failure_of_a_hub(tmp_path: Path) -> None:
    folder = copy_sources(tmp_path / "copy", [STAYS])
    test = "test_seeds.py::test_seed_repeats_the_life_of_a_hub[3]"
    told = []
    for _ in range(TIMES):
        ran = run(folder, promised(test))
        assert ran.failed_by("process.returncode =="), ran.output
        # The seed, each act and the digest after it, and the first row that is wrong.
        said = r"^E +(?:AssertionError: seed \d+|(?:part|\w+ t-)\d.*)"
        told.append(re.findall(said, ran.output, re.MULTILINE))
    assert len(told[0]) > 2
    assert told == told[:1] * TIMES
