"""Promises: each has a test, and the page about promises names its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.promised import PROMISES, ROOT
from tests.promises import table

TESTS = """
pytestmark = pytest.mark.promise("P2", load="8 × {appends}")

@pytest.mark.promise("P2", load=f"{WRITERS} writers")
def test_dense(): ...

@pytest.mark.nightly
@pytest.mark.promise("P1", load="a stop")
def test_kept(appends): ...

@pytest.mark.promise("P4", load="no anchors", control=True)
def test_missed(): ...
"""
SKIPPED = """
import pytest

def test_found():
    pytest.skip("it is away")
"""


def test_every_promise_has_a_test() -> None:
    assert {each.promise for each in table.list_tried()} == PROMISES.keys()


def test_every_file_in_the_folder_of_promises_names_one() -> None:
    """A file names a promise by a mark of its own, or by that of its controls."""
    paths = sorted((ROOT / "tests" / "promises").rglob("test_*.py"))
    assert paths
    for path in paths:
        text = path.read_text()
        assert "pytest.mark.promise(" in text or " control(\n" in text, path


# The table


def test_line_tells_where_a_promise_is_tried_and_under_which_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    monkeypatch.setattr(table, "ROOT", tmp_path)
    lines = table.table().splitlines()
    by_promise = {line.split(" | ")[0]: line.split(" | ")[2:] for line in lines}
    assert by_promise["| P1"] == ["nightly: `tests/test_it.py`", "a stop |"]
    assert by_promise["| P2"] == [
        "test: `tests/test_it.py`; nightly: `tests/test_it.py`",
        "… writers; 8 × … |",
    ]
    assert by_promise["| P4"] == ["test: `tests/test_it.py`", " |"]


@pytest.mark.parametrize(("all_must_run", "code"), [("", 0), ("1", 1)])
def test_skip_fails_where_all_must_run(
    tmp_path: Path, all_must_run: str, code: int
) -> None:
    (tmp_path / "test_it.py").write_text(SKIPPED)
    plugin = ["-c", os.devnull, "-p", "tests.promised", "-p", "no:cacheprovider"]
    foreign = ("DJANGO_", "PYTEST_", "DATABASE_URL")
    own = {
        name: text for name, text in os.environ.items() if not name.startswith(foreign)
    }
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "--rootdir", "."],
        cwd=tmp_path,
        env={**own, "PYTHONPATH": str(ROOT), "MEMORYHUB_TEST_ALL": all_must_run},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
