"""What is promised is tried, and what was found is told as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.promised import PROMISES, ROOT
from tests.promises import table
from tests.promises.table import PAGE, Tried
from tools import docs

#: One of each kind: it holds, it does not, it can't be tried here, and a control.
TESTS = """
import pytest

@pytest.mark.promise("P2", load="{writers} writers")
@pytest.mark.parametrize("writers", [3, 8])
def test_dense(writers, counted):
    counted(appends=writers * 10, seed=7)

@pytest.mark.promise("P1")
@pytest.mark.parametrize("works", [True, False])
def test_kept(works):
    assert works

@pytest.mark.promise("P4", load="no PostgreSQL")
def test_found():
    pytest.skip("it is away")

@pytest.mark.promise("P4", load="no anchors", control=True)
def test_missed():
    pass

def test_of_nothing_promised():
    pass
"""

ONE = Tried(promise="P6", file="tests/api/test_a.py", name="test_one", command="test")
OTHER = Tried(promise="P6", file="tests/api/test_a.py", name="test_b", command="test")


def test_every_promise_is_tried() -> None:
    assert {each.promise for each in table.list_tried()} == PROMISES.keys()


def test_every_file_in_the_folder_of_promises_names_one() -> None:
    """By a mark of its own, or by that of its controls."""
    paths = sorted((ROOT / "tests" / "promises").rglob("test_*.py"))
    assert paths
    for path in paths:
        text = path.read_text()
        assert "pytest.mark.promise(" in text or " control(\n" in text, path


def test_the_page_names_each_promise_and_what_tries_it() -> None:
    """Its loads and results are of the day it was made."""
    written = docs.between(PAGE).splitlines()[2:]
    shown = [line.split(" | ")[:3] for line in written]
    today = table.table(table.list_tried(), []).splitlines()[2:]
    assert shown == [line.split(" | ")[:3] for line in today], "run `make promises`"


# The record


def run(folder: Path, *words: str, **env: str) -> int:
    """A pytest of its own with our plugin, and without Django or a database."""
    (folder / "test_it.py").write_text(TESTS)
    foreign = ("DJANGO_", "PYTEST_", "DATABASE_URL", "MEMORYHUB_TEST_ALL")
    own = {
        name: text for name, text in os.environ.items() if not name.startswith(foreign)
    }
    plugin = ["-p", "tests.promised", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *plugin, *words],
        cwd=folder,
        env={**own, "PYTHONPATH": str(ROOT), "MEMORYHUB_ARTEFACTS": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    return ended.returncode


def record(folder: Path) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = json.loads((folder / "promises.json").read_text())
    return kept


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_writes_down_what_it_found(tmp_path: Path, workers: str) -> None:
    folder = "--rootdir", str(tmp_path)
    assert run(tmp_path, *folder, "-n", workers) == 1
    rows = record(tmp_path)
    found = {(row["promise"], row["load"]): row for row in rows}
    assert {about: row["pass"] for about, row in found.items()} == {
        ("P1", ""): False,
        ("P2", "3 writers"): True,
        ("P2", "8 writers"): True,
        ("P4", "no PostgreSQL"): None,
        ("P4", "no anchors"): True,
    }
    assert found["P1", ""]["cases"] == {"passed": 1, "failed": 1}
    dense = found["P2", "8 writers"]
    assert (dense["counts"], dense["seed"]) == ({"appends": 80}, 7)
    assert dense["test"] == "test_it.py::test_dense"
    assert {row["engine"] for row in rows} == {"SQLite"}
    assert [row["load"] for row in rows if row["control"]] == ["no anchors"]
    assert all(row["duration"] >= 0 and row["at"] for row in rows)


def test_a_run_replaces_what_the_last_one_on_its_engine_found(tmp_path: Path) -> None:
    folder = "--rootdir", str(tmp_path), "-n", "0"
    run(tmp_path, *folder)
    run(tmp_path, *folder, DATABASE_URL="postgres://nowhere")
    whole = record(tmp_path)
    assert [row["engine"] for row in whole if row["promise"] == "P1"] == [
        "PostgreSQL",
        "SQLite",
    ]
    assert run(tmp_path, *folder, "-k", "kept and True") == 0
    again = record(tmp_path)
    assert len(again) == len(whole)
    outcomes = {row["engine"]: row["pass"] for row in again if row["promise"] == "P1"}
    assert outcomes == {"PostgreSQL": False, "SQLite": True}


def test_a_skip_fails_where_all_must_run(tmp_path: Path) -> None:
    folder = "--rootdir", str(tmp_path), "-n", "0", "-k", "found"
    assert run(tmp_path, *folder) == 0
    assert run(tmp_path, *folder, MEMORYHUB_TEST_ALL="1") == 1
    (row,) = record(tmp_path)
    assert row["pass"] is False


# The table


def row(each: Tried, *, held: bool | None = True, **about: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"promise": each.promise, "test": each.test}
    usual |= {"engine": "SQLite", "load": "", "control": False}
    usual |= {"at": "2026-05-04T12:00:00+00:00", "cases": {"passed": 2}}
    return usual | {"pass": held} | about


def last(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Load and result in the table's line of P6, which two tests try."""
    lines = table.table([ONE, OTHER], rows).splitlines()
    (line,) = (line for line in lines if line.startswith("| P6 "))
    load, result = line.removesuffix(" |").split(" | ")[-2:]
    return load, result


def test_the_table_tells_what_was_found() -> None:
    assert last([]) == ("", "not checked")
    both = [row(ONE, load="many"), row(OTHER, engine="PostgreSQL")]
    expected = "held on SQLite; held on PostgreSQL (2026-05-04)"
    assert last(both) == ("many; 2 more cases", expected)
    assert last(both[:1])[1].endswith("; 1 of 2 tests not checked (2026-05-04)")


def test_the_table_hides_nothing() -> None:
    broken = [row(ONE), row(OTHER, held=False)]
    assert last(broken)[1] == f"failed on SQLite: `{OTHER.name}` (2026-05-04)"
    skipped = [row(ONE), row(OTHER, held=None)]
    assert last(skipped)[1] == f"not checked on SQLite: `{OTHER.name}` (2026-05-04)"


def test_the_table_forgets_tests_that_are_no_more() -> None:
    gone = row(ONE, test=f"{ONE.file}::test_of_yesterday", held=False)
    assert last([row(ONE), row(OTHER), gone])[1] == "held on SQLite (2026-05-04)"


def test_the_table_says_that_a_control_was_caught() -> None:
    control = row(OTHER, control=True, load="no key")
    assert last([control])[1] == "not checked; its control is caught (2026-05-04)"
    assert "; unnoticed: no key" in last([row(ONE), control | {"pass": False}])[1]
    expected = "held on SQLite; its control is caught (2026-05-04)"
    assert last([row(ONE, load="many"), control]) == ("many", expected)
    named = control | {"test": "tests/test_promised.py::row"}
    usual = [row(ONE, load="many"), row(OTHER, load="more")]
    assert last([*usual, named]) == ("many; more", expected)
    assert "control" not in last([*usual, named | {"test": "tests/gone.py::row"}])[1]
