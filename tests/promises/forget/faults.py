"""Faults: a copy of the code with lines of it wrong, and a test that must see it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
FOLDERS = ("inspector", "memoryhub", "static", "templates", "tests")
FILES = ("README.md", "manage.py", "pyproject.toml")
#: Of the run that starts the other: its folders, workers and times.
_OURS = ("MEMORYHUB_", "PYTEST_", "DJANGO_")
_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Fault:
    """Text that occurs once in a file, and the faulty text that replaces it."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Ran:
    """Exit code and output of a test run."""

    code: int
    output: str

    @property
    def passed(self) -> bool:
        return self.code == 0

    def failed_by(self, *asserted: str) -> bool:
        """Tell whether a test failed by an assertion that begins like one of these."""
        where = rf"^> +assert ({'|'.join(map(re.escape, asserted))})"
        return self.code == 1 and bool(re.search(where, self.output, re.MULTILINE))


def copy_sources(folder: Path, faults: Iterable[Fault] = ()) -> Path:
    """Copy the sources and their tests, with these faults in them."""
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for fault in faults:
        path = folder / fault.file
        text = path.read_text(encoding="utf-8")
        assert text.count(fault.old) == 1, f"{fault.file} has changed: {fault.old}"
        path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    return folder


def run(folder: Path, *tests: str) -> Ran:
    """Run tests of the copy, on the engine of this run."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_OURS)
    }
    words = ["-vv", "-x", "-p", "no:cacheprovider", f"--timeout={_SECONDS}", *tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env=inherited,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Ran(done.returncode, done.stdout + done.stderr)


@dataclass(frozen=True, slots=True)
class Control:
    """Faults, and the assertion of a test that must notice them.

    Several assertions are alternatives, where timing decides which fails first.
    """

    test: str
    asserted: tuple[str, ...]
    faults: tuple[Fault, ...]
    #: Text that the failure must also contain.
    said: str


def promised(test: str) -> str:
    """Return the path of a promise's test, in whichever room its file stands."""
    file, _, name = test.partition("::")
    (path,) = (ROOT / "tests" / "promises").rglob(file)
    return f"{path.relative_to(ROOT)}::{name}"


def control(
    promise: str,
    load: str,
    test: str,
    asserted: str | tuple[str, ...],
    *faults: Fault,
    said: str = "",
    marks: tuple[pytest.MarkDecorator, ...] = (),
) -> Any:
    mark = pytest.mark.promise(promise, load=load, control=True)
    path = f"tests/{test}" if "/" in test else promised(test)
    among = (asserted,) if isinstance(asserted, str) else asserted
    made = Control(path, among, faults, said)
    return pytest.param(made, marks=[mark, *marks], id=f"{promise} {load}")


def assert_noticed(control: Control, folder: Path) -> None:
    ran = run(copy_sources(folder / "copy", control.faults), control.test)
    assert ran.failed_by(*control.asserted), ran.output
    assert control.said in ran.output, ran.output
