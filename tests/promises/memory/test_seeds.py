"""P25: a seed repeats a failure of a state machine, step by step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.promises.forget.faults import Fault, copy_sources, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEED, TIMES = 25, 3
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


@pytest.mark.promise("P25", load=f"a known fault in working memory, {TIMES} runs")
def test_seed_repeats_a_failure_of_working_memory(tmp_path: Path) -> None:
    folder = copy_sources(tmp_path / "copy", [ENDS_LATE])
    file = folder / "tests" / "kernel" / "state" / "test_seeded.py"
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
