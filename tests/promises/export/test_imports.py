"""Promises of an import's process: it may die, and it stays small."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cast.recordings import array, bookings, build_message, run
from tests.harness.instances import Instance

pytestmark = pytest.mark.slow

MIB = 1_048_576
NIGHT_SECONDS = 1_800
KILL = "tests.harness.killing:kill_everywhere"


@pytest.mark.promise("import", load="killed before and after one commit in {every}")
@pytest.mark.parametrize(
    "every", [pytest.param(6, id="some"), pytest.param(1, marks=pytest.mark.nightly)]
)
def test_killed_import_resumes_from_any_commit(
    instance: Instance, tmp_path: Path, every: int
) -> None:
    path = array(
        tmp_path,
        run(0, user_id="ann", messages=450),
        run(1, user_id="bob"),
        run(2),
        run(3, user_id="ann", messages=3),
    )
    told = json.loads(
        instance.call("tests.harness.killing:kill_everywhere", str(path), every)
    )
    dumps, ends = told["dumps"], told["ends"]
    assert [len(thread["slots"]) for thread in dumps["whole"]] == [450, 2, 2, 3]
    assert len(dumps) > 2
    for slug, dump in dumps.items():
        if slug != "whole":
            assert ends[slug] == -signal.SIGKILL, slug
            assert ends[f"{slug}-again"] == 0, slug
            assert dump == dumps["whole"], slug
    assert "every chain is whole" in instance.managed("verify", "--all")


@pytest.mark.promise(
    "import", load="paging simulated, killed around one commit in {every}"
)
@pytest.mark.parametrize(
    "every", [pytest.param(9, id="some"), pytest.param(1, marks=pytest.mark.nightly)]
)
@pytest.mark.timeout(900)
def test_killed_import_with_paging_resumes_from_any_commit(
    instance: Instance, tmp_path: Path, every: int
) -> None:
    """No turn is begun twice, and each request holds what it would have held."""
    path = array(tmp_path, run(0, user_id="ann", messages=bookings(5)), run(1))
    with instance.start(KILL, str(path), every, "--budget=2000") as process:
        out, errors = process.communicate(timeout=800)
    assert process.returncode == 0, errors
    told = json.loads(out)
    dumps, ends = told["dumps"], told["ends"]
    whole = dumps.pop("whole")
    kinds = [event[1] for event in whole[0]["events"]]
    assert kinds.count("turn.packed") == kinds.count("turn.began") == 10
    assert "page.faulted" in kinds
    assert len(dumps) > 2
    for slug, dump in dumps.items():
        assert (ends[slug], ends[f"{slug}-again"]) == (-signal.SIGKILL, 0), slug
        assert dump == whole, slug
    assert "contexts byte-exact" in instance.managed("verify", "--contexts", "--all")


@pytest.mark.promise("import", load="files of {small:,} and {large:,} bytes")
@pytest.mark.parametrize(
    ("small", "large", "slack"),
    [
        pytest.param(2 * MIB, 40 * MIB, 15 * MIB, id="some"),
        pytest.param(10 * MIB, 1024 * MIB, 50 * MIB, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(NIGHT_SECONDS)
def test_import_memory_stays_flat(
    instance: Instance, tmp_path: Path, small: int, large: int, slack: int
) -> None:
    peaks = []
    for size in (small, large):
        path = tmp_path / f"{size}.json"
        write_runs(path, size)
        # A call of its own, since a gigabyte takes longer than commands may.
        call = instance.start("tests.harness.killing:measure", str(path), f"p{size}")
        with call as process:
            out, errors = process.communicate(timeout=NIGHT_SECONDS)
        assert process.returncode == 0, errors
        peaks.append(int(out))
    assert peaks[1] - peaks[0] < slack, peaks


def write_runs(path: Path, size: int) -> None:
    """Write a file of about so many bytes; each run has ten messages of 20 KB."""
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for task in range(size // 200_000):
            text = f"{task} " * (20_000 // (len(str(task)) + 1))
            made = run(task, messages=[build_message(text) for _ in range(10)])
            file.write(("," if task else "") + json.dumps(made))
        file.write("]")
