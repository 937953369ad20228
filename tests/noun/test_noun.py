"""Nouns consist of their own files, and their lines in each layer's list.

Bookmarks are put into a copy of the project: the files below `files`, and LINES.
`files/tests/noun/test_bookmarks.py` tests the result there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: Each plays a part of the tests in a process of its own.
pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ROOT / "tests" / "noun" / "files"
COPIED = (
    *("memoryhub", "memoryhub_client", "inspector", "templates", "static", "tests"),
    *("tools", "benchmarks", "docs", "examples", "manage.py", "pyproject.toml"),
    *("README.md", "Makefile", "uv.lock"),
)

#: By list, what is put behind which words of it: the import, and the noun's line.
LINES: dict[str, dict[str, str]] = {
    "memoryhub/kernel/memory/nouns.py": {
        "import keys, notes, tasks": ", bookmarks",
        "    notes.PART,\n": "    bookmarks.PART,\n",
    },
    "memoryhub/queries/nouns.py": {
        "import checkpoints, keys, notes, tasks": ", bookmarks",
        "    notes.STATES,\n": "    bookmarks.STATES,\n",
    },
    "memoryhub/queries/memory/nouns.py": {
        "import notes, tasks": ", bookmarks",
        "    notes.VIEW,\n": "    bookmarks.VIEW,\n",
    },
    "memoryhub/api/memory/nouns.py": {
        "import notes": ", bookmarks",
        "    notes.NEWEST,\n": "    bookmarks.NEWEST,\n",
    },
    "memoryhub/api/application.py": {
        "memory import (\n    checkpoints,\n": "    bookmarks,\n",
        "(keys, tasks, notes,": " bookmarks,",
    },
    "inspector/nouns.py": {
        "memory import checkpoints, keys, notes,": " bookmarks,",
        "    notes.SCREEN,\n": "    bookmarks.SCREEN,\n",
    },
    "static/css/events.css": {
        "[data-hide~=notes] [data-noun=notes],": (
            "[data-hide~=bookmark] [data-noun=bookmark],"
            "[data-hide~=bookmarks] [data-noun=bookmarks],"
        ),
    },
    # Words of the OpenAPI document for what checkpoints and comparisons say of it.
    "memoryhub/api/document/glossary.py": {
        '    "notes": "Notes.",\n': (
            '    "bookmarks": "How many bookmarks.",\n'
            '    "bookmarks_added": "Numbers of those that came.",\n'
        ),
    },
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project and put bookmarks into the copy."""
    folder = tmp_path_factory.mktemp("noun")
    unwanted = shutil.ignore_patterns("__pycache__", "files", "test_noun.py")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, folder / name)
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    for name, changes in LINES.items():
        path = folder / name
        text = path.read_text()
        for before, line in changes.items():
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, before + line)
        path.write_text(text)
    return folder


def run(copy: Path, *arguments: str) -> None:
    """Run Python in the copy, with a data folder of its own."""
    ours = ("MEMORYHUB_", "PYTEST_", "PYTHONPYCACHEPREFIX", "DJANGO_")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(ours)
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]


def test_noun_is_its_own_files_and_a_line_in_each_list(copy: Path) -> None:
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/noun")


@pytest.mark.usefixtures("sqlite")
def test_golden_histories_replay_with_a_new_noun(copy: Path) -> None:
    replay = "tests/kernel/threads/test_replay.py"
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", replay, "-k", "golden")


def test_noun_routes_and_events_are_documented(copy: Path) -> None:
    run(copy, "-m", "tools.docs")
    assert "`bookmark.added`" in (copy / "docs/events.md").read_text()
    schema = "tests/api/document/test_schema.py"
    described = ("-k", "everything_is_described or bookmarks")
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", schema, *described)
    tail = "tests/inspector/replay/test_timeline.py"
    hidden = ("-k", "can_be_hidden")
    run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", tail, *hidden)
