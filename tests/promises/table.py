"""The table of docs/promises.md.

What is promised, by which tests it is tried and under which load is read from the
sources, so the table is checked without a run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import slow
from tests.promised import MARK, PROMISES, ROOT

#: Of make, in the order in which they are to be run.
COMMANDS = ("test", "test-all", "nightly")
HEAD = "| | promise | tried by | load |\n|---|---|---|---|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Test that carries a promise."""

    promise: str
    file: str
    name: str
    #: Of make, the first that runs it.
    command: str
    #: As it is named; what a run puts in is an ellipsis. Empty for a control.
    load: str = ""


# Tests that carry a promise


def list_tried() -> list[Tried]:
    """Return all tests of promises, by file and in the order of the file."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [each for path in paths for each in tried_in(path)]


def tried_in(path: Path) -> Iterator[Tried]:
    """Yield the tests of one file, by each promise that they or their module carry."""
    file = str(path.relative_to(ROOT))
    module = ast.parse(path.read_text(encoding="utf-8"))
    of_all = list(_module_marks(module))
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        marks = [*of_all, *node.decorator_list]
        command = _command(f"{file}::{node.name}", {*map(ast.unparse, marks)})
        # The nearest mark of a promise counts, so it comes last.
        for promise, load in dict(_promises(marks)).items():
            yield Tried(
                promise=promise,
                file=file,
                name=node.name,
                command=command,
                load=load,
            )


def _command(test: str, marks: set[str]) -> str:
    if "pytest.mark.nightly" in marks:
        return "nightly"
    listed = test.removeprefix("tests/") in slow.list_names()
    return "test-all" if listed or "pytest.mark.slow" in marks else "test"


def _module_marks(module: ast.Module) -> Iterator[ast.expr]:
    for node in module.body:
        if not isinstance(node, ast.Assign):
            continue
        if ast.unparse(node.targets[0]) == "pytestmark":
            many = isinstance(node.value, ast.List)
            yield from node.value.elts if many else [node.value]  # type: ignore[attr-defined]  # of a list


def _promises(marks: Iterable[ast.expr]) -> Iterator[tuple[str, str]]:
    for mark in marks:
        if not isinstance(mark, ast.Call):
            continue
        if ast.unparse(mark.func) == f"pytest.mark.{MARK}":
            given = {each.arg: each.value for each in mark.keywords}
            load = "" if "control" in given else _load(given.get("load"))
            yield str(ast.literal_eval(mark.args[0])), load


def _load(named: ast.expr | None) -> str:
    """Return a load's text, taken from a run's parameters or the module's constants."""
    if named is None:
        return ""
    parts = named.values if isinstance(named, ast.JoinedStr) else [named]
    texts = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
    return re.sub(r"\{[^}]*\}", "…", "".join(map(str, texts)))


# The table


def table() -> str:
    """List every promise in Markdown, with what tries it."""
    tried = list_tried()
    lines = [HEAD]
    for promise, sentence in PROMISES.items():
        tests = [each for each in tried if each.promise == promise]
        lines.append(f"| {promise} | {sentence} | {files(tests)} | {loads(tests)} |")
    return "".join(f"{line}\n" for line in lines)


def files(tests: list[Tried]) -> str:
    """Render the files of the tests, by the first command that runs any of them."""
    said = []
    for command in COMMANDS:
        found = sorted({each.file for each in tests if each.command == command})
        if found:
            said.append(f"{command}: " + ", ".join(f"`{file}`" for file in found))
    return "; ".join(said)


def loads(tests: list[Tried]) -> str:
    """Return the loads that are named, each once."""
    return "; ".join(dict.fromkeys(each.load for each in tests if each.load))
