"""Plugin of pytest that knows the promises.

A test that tries a promise is marked with it: `@pytest.mark.promise("P2", load="…")`.
The load may name the test's parameters in braces. `control` marks a deliberate fault,
which the test shows to be noticed. `make docs` writes docs/promises.md of that.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

#: The numbers are those of the plan; what stands beside it has a word instead.
PROMISES = {
    "P1": "An acknowledged write survives kill -9 of the server.",
    "P2": "Events are numbered 1..n and slots 0..n−1, with no gap, under any "
    "concurrency.",
    "P3": "A stored event can't be changed, by nobody, in no way but an erasure.",
    "P4": "Any other change is found by `manage.py verify`, which names the first "
    "wrong event.",
    "P5": "An erasure, by expiry or by hand, leaves a chain that verifies.",
    "P6": "One effect per Idempotency-Key, for 24 hours.",
    "P7": "A write on a stale precondition changes nothing.",
    "P8": "Each key is one register, across processes: every history has an order.",
    "P9": "An expired key is in no answer from its instant on, swept or not.",
    "P10": "A restore happens as a whole or not at all, and loses no other checkpoint.",
    "P11": "After a write has returned, no process answers from before it.",
    "P12": "No key or project sees anything of another; absent and foreign look alike.",
    "P13": "Once there is a receipt, nothing of the subject is in any byte that we "
    "keep, but for what the receipt declares.",
    "P14": "Nothing brings back what was forgotten: no late writer, import, restored "
    "checkpoint or restored backup.",
    "P15": "A forget changes nothing of anyone else.",
    "P16": "An export is all of a subject and of nobody else; imported elsewhere, it "
    "exports the same.",
    "P17": "With a dependency away nothing is accepted that is not stored, and what is "
    "degraded says so.",
    "P18": "A forget works at once on a full disk and beside long readers; its receipt "
    "waits.",
    "P19": "Overload is bounded: each limit refuses within a second, and a quiet "
    "project stays fast beside a flood.",
    "P20": "No input gives a 500.",
    "P21": "Both databases give the same answer.",
    "P22": "Migrations go forward and back, and lose nothing that journals hold.",
    "P23": "Clocks don't matter to order, and none of them ends anything early.",
    "P24": "Replay is deterministic: the state at an event is the same on every host, "
    "and a recorded context reassembles to its recorded bytes.",
    "P25": "A seed repeats a failure.",
    "P26": "A key is shown once, stored as a digest and dead within a second of its "
    "revocation.",
    "P27": "A backup restores to a hub that verifies, and erasures since then are "
    "replayed first.",
    "P28": "What is on screen is fresh or says that it is not.",
    "import": "An import that dies anywhere is whole once it is repeated, and needs "
    "no more memory for a larger file.",
    "delivered": "A webhook receives each event at least once, and the new events of "
    "a thread in order, whichever processes send or die.",
    "observed": "Each message of a thread is observed exactly once, whichever "
    "processes ask the model, race or die.",
    "learnt": "What was said is learnt from exactly once, whichever processes ask the "
    "model, race or die.",
    "looking": "Looking changes nothing.",
    "fetched": "What has left the window is fetched back through the tools alone, "
    "within the budget of its exchange.",
    "sealed": "No content and no outside id of a person stands in the clear in any "
    "file.",
}

ROOT = Path(__file__).resolve().parent.parent
MARK = "promise"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Fail skipped tests where everything must run."""
    report = yield
    if os.environ.get("MEMORYHUB_TEST_ALL") == "1" and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"not checked: {report.longreprtext}"
    return report
