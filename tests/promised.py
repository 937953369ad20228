"""What is promised, and what became of it: a plugin of pytest that keeps the record.

A test that tries a promise is marked with it: `@pytest.mark.promise("P2", load="…")`.
The load may name the test's parameters in braces; without one it is counted. `control`
marks a deliberate fault, which the test shows to be noticed. The fixture `counted`
takes down how much was tried, and by which seed.

Each run on an engine replaces what the last one on it found of the same tests, in
`var/artefacts/promises.json`; `make promises` puts that into docs/promises.md.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
    "P20": "No input gives a 500.",
    "P21": "Both databases give the same answer.",
    "P23": "Clocks don't matter to order, and none of them ends anything early.",
    "P24": "Replay is deterministic: the state at an event is the same on every host, "
    "and a recorded context reassembles to its recorded bytes.",
    "P26": "A key is shown once, stored as a digest and dead within a second of its "
    "revocation.",
    "P28": "What is on screen is fresh or says that it is not.",
    "import": "An import that dies anywhere is whole once it is repeated, and needs "
    "no more memory for a larger file.",
    "looking": "Looking changes nothing.",
    "fetched": "What has left the window is fetched back through the tools alone, "
    "within the budget of its exchange.",
    "sealed": "No content and no outside id of a person stands in the clear in any "
    "file.",
}

ROOT = Path(__file__).resolve().parent.parent
MARK, COUNTS = "promise", "counted"
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"

Count = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Trial:
    """One test under one load on one engine; what its cases are counted under."""

    promise: str
    test: str
    engine: str
    load: str
    control: bool


@dataclass(slots=True, kw_only=True)
class Outcome:
    cases: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    seed: int | None = None
    seconds: float = 0.0

    @property
    def passed(self) -> bool | None:
        """None where a case was skipped: nothing is known, then."""
        if self.cases["failed"]:
            return False
        return None if self.cases["skipped"] else True


def path() -> Path:
    """Where the record is kept."""
    folder = os.environ.get("MEMORYHUB_ARTEFACTS") or ROOT / "var" / "artefacts"
    return Path(folder) / "promises.json"


def read() -> list[dict[str, Any]]:
    try:
        kept: list[dict[str, Any]] = json.loads(path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return kept


# What each test is told, and tells


def pytest_configure(config: pytest.Config) -> None:
    # With workers it is the process above them that hears of every outcome.
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Recorder())


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    for item in items:
        if marked := dict(_promises(item)):
            item.user_properties += [(MARK, marked), (COUNTS, {"seed": _seed(config)})]


def _promises(item: pytest.Item) -> Iterator[tuple[str, dict[str, Any]]]:
    # The nearest mark of a promise counts, so it comes last.
    for mark in reversed(list(item.iter_markers(MARK))):
        (name,) = mark.args
        assert name in PROMISES, f"{name} is no promise of tests/promised.py"
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        load = str(mark.kwargs.get("load", "")).format(**parameters)
        yield name, {"load": load, "control": bool(mark.kwargs.get("control"))}


def _seed(config: pytest.Config) -> int | None:
    """What `-p randomly` begins every test from; None where it is switched off."""
    seed = getattr(config.option, "randomly_seed", None)
    return seed if isinstance(seed, int) else None


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Count:
    """Takes down how much was tried: `counted(kills=20, seed=7)`."""
    found: dict[str, int] = dict(request.node.user_properties).get(COUNTS, {})

    def count(**numbers: int) -> None:
        found.update(numbers)

    return count


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Where everything must run, what is skipped has failed."""
    report = yield
    if os.environ.get("MEMORYHUB_TEST_ALL") == "1" and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"not checked: {report.longreprtext}"
    return report


# The record


class Recorder:
    """Hears of every outcome, and writes down those of promises."""

    def __init__(self) -> None:
        self.engine = POSTGRESQL if os.environ.get("DATABASE_URL") else SQLITE
        self.reports: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # What became of a part of a test is in the test's own report as well.
        part = isinstance(report, pytest.SubtestReport)
        if MARK in dict(report.user_properties) and not part:
            self.reports.setdefault(report.nodeid, []).append(report)

    def pytest_sessionfinish(self) -> None:
        if self.reports:
            write(outcomes(self.reports, engine=self.engine))


def outcomes(
    reports: dict[str, list[pytest.TestReport]], *, engine: str
) -> dict[Trial, Outcome]:
    """Cases of the same test and load, together."""
    found: dict[Trial, Outcome] = {}
    for case, phases in reports.items():
        noted: dict[str, Any] = dict(phases[-1].user_properties)
        counts = dict(noted[COUNTS])
        seed = counts.pop("seed")
        for promise, about in noted[MARK].items():
            test = case.partition("[")[0]
            trial = Trial(promise=promise, test=test, engine=engine, **about)
            outcome = found.setdefault(trial, Outcome())
            outcome.cases[_verdict(phases)] += 1
            outcome.counts.update(counts)
            outcome.seed = seed
            outcome.seconds += sum(phase.duration for phase in phases)
    return found


def _verdict(phases: list[pytest.TestReport]) -> str:
    verdicts = {phase.outcome for phase in phases}
    return next(each for each in ("failed", "skipped", "passed") if each in verdicts)


def write(found: dict[Trial, Outcome]) -> None:
    """Put these in the place of what was known of the same tests on the same engine."""
    measured = {(trial.test, trial.engine, trial.load) for trial in found}
    rows = [
        row
        for row in read()
        if (row["test"], row["engine"], row["load"]) not in measured
    ]
    rows += [_row(trial, outcome) for trial, outcome in found.items()]
    rows.sort(key=lambda row: [str(row[name]) for name in Trial.__slots__])
    kept, new = path(), path().with_suffix(f".{os.getpid()}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    new.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
    new.replace(kept)


def _row(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    return {
        **asdict(trial),
        "pass": outcome.passed,
        "cases": dict(outcome.cases),
        "counts": dict(outcome.counts),
        "seed": outcome.seed,
        "duration": round(outcome.seconds, 2),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
