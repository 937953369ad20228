"""The table of docs/promises.md: `python -m tests.promises.table`, or `make promises`.

What is promised, and by which tests it is tried, is read from the sources; loads and
results are those of the last runs, from `var/artefacts/promises.json`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import slow
from tests.promised import MARK, POSTGRESQL, PROMISES, ROOT, SQLITE, read
from tools import docs

PAGE = docs.DOCS / "promises.md"
#: Of make, in the order in which they are to be run.
COMMANDS = ("test", "test-all", "nightly")
HEAD = "| | promise | tried by | load | last result |\n|---|---|---|---|---|"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A test that carries a promise."""

    promise: str
    file: str
    name: str
    #: Of make, the first that runs it.
    command: str

    @property
    def test(self) -> str:
        return f"{self.file}::{self.name}"


def main() -> int:
    docs.put(PAGE, f"{table(list_tried(), read())}\n")
    return 0


# Which tests carry a promise


def list_tried() -> list[Tried]:
    """By file, and in each as they stand there."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [each for path in paths for each in tried_in(path)]


def tried_in(path: Path) -> Iterator[Tried]:
    """The tests of one file, by each promise that they or their module carry."""
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
        for promise in dict.fromkeys(_promises(marks)):
            yield Tried(promise=promise, file=file, name=node.name, command=command)


def _command(test: str, marks: set[str]) -> str:
    if "pytest.mark.nightly" in marks:
        return "nightly"
    listed = test.removeprefix("tests/") in slow.names()
    return "test-all" if listed or "pytest.mark.slow" in marks else "test"


def _module_marks(module: ast.Module) -> Iterator[ast.expr]:
    for node in module.body:
        if not isinstance(node, ast.Assign):
            continue
        if ast.unparse(node.targets[0]) == "pytestmark":
            many = isinstance(node.value, ast.List)
            yield from node.value.elts if many else [node.value]  # type: ignore[attr-defined]  # of a list


def _promises(marks: Iterable[ast.expr]) -> Iterator[str]:
    for mark in marks:
        if not isinstance(mark, ast.Call):
            continue
        if ast.unparse(mark.func) == f"pytest.mark.{MARK}":
            yield str(ast.literal_eval(mark.args[0]))


# What became of them


def table(tried: list[Tried], record: list[Row]) -> str:
    """In Markdown; what has no result, or lost its test, is not checked."""
    lines = [HEAD]
    for promise, sentence in PROMISES.items():
        tests = [each for each in tried if each.promise == promise]
        rows = _results(tests, [row for row in record if row["promise"] == promise])
        cells = [promise, sentence, files(tests), loads(rows), result(tests, rows)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _results(tests: list[Tried], rows: list[Row]) -> list[Row]:
    """In the order of the tests, then of controls that a list of parameters names.

    What tests found that are no more is left out.
    """
    order = {each.test: place for place, each in enumerate(tests)}
    known = [row for row in rows if row["test"] in order or _named_control(row)]
    return sorted(known, key=lambda row: order.get(row["test"], len(order)))


def _named_control(row: Row) -> bool:
    file, _, name = row["test"].partition("::")
    path = ROOT / file
    return row["control"] and path.exists() and f"def {name}(" in path.read_text()


def files(tests: list[Tried]) -> str:
    """Where they stand, by the first command that runs any of them there."""
    said = []
    for command in COMMANDS:
        found = sorted({each.file for each in tests if each.command == command})
        if found:
            said.append(f"{command}: " + ", ".join(f"`{file}`" for file in found))
    return "; ".join(said)


def loads(rows: list[Row]) -> str:
    """What was tried, each kind once; where no load was named, how many cases."""
    trials = [row for row in rows if not row["control"]]
    named = {row["load"]: None for row in trials if row["load"]}
    cases: dict[str, int] = {}
    for row in trials:
        if not row["load"]:
            cases[row["test"]] = max(cases.get(row["test"], 0), _cases(row))
    more = " more" if named else ""
    counted = [f"{sum(cases.values()):,}{more} cases"] if cases else []
    return "; ".join([*named, *counted])


def _cases(row: Row) -> int:
    return sum(row["cases"].values())


def result(tests: list[Tried], rows: list[Row]) -> str:
    """How it ended on each engine, and when the oldest of it was found out."""
    trials = [row for row in rows if not row["control"]]
    said = [_ended(engine, trials) for engine in (SQLITE, POSTGRESQL)]
    if not trials:
        said.append("not checked")
    elif missing := _missing(tests, rows):
        said.append(f"{missing} of {len(tests)} tests not checked")
    said.append(_controlled([row for row in rows if row["control"]]))
    oldest = f" ({min(row['at'][:10] for row in rows)})" if rows else ""
    return "; ".join(filter(None, said)) + oldest


def _ended(engine: str, rows: list[Row]) -> str:
    here = [row for row in rows if row["engine"] == engine]
    for verdict, word in ((False, "failed"), (None, "not checked")):
        names = sorted({_name(row) for row in here if row["pass"] is verdict})
        if names:
            return f"{word} on {engine}: {', '.join(f'`{name}`' for name in names)}"
    return f"held on {engine}" if here else ""


def _missing(tests: list[Tried], rows: list[Row]) -> int:
    """How many tests of the usual run have no result."""
    ran = {row["test"] for row in rows}
    usual = [each for each in tests if each.command != "nightly"]
    return len([each for each in usual if each.test not in ran])


def _controlled(controls: list[Row]) -> str:
    """Of a deliberate fault, whether the test of the promise noticed."""
    unnoticed = [row["load"] for row in controls if row["pass"] is False]
    if unnoticed:
        return f"unnoticed: {', '.join(unnoticed)}"
    return "its control is caught" if any(row["pass"] for row in controls) else ""


def _name(row: Row) -> str:
    name: str = row["test"].rpartition("::")[2]
    return name


if __name__ == "__main__":
    sys.exit(main())
