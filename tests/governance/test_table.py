from __future__ import annotations

import ast
from pathlib import Path

from tests.governance.table import NINETEEN

HERE = Path(__file__).parent


def covered() -> set[int]:
    """The numbers that tests of this folder are marked with."""
    numbers = set()
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                "mark.governance"
            ):
                numbers |= {ast.literal_eval(each) for each in node.args}
    return numbers


def test_each_of_the_nineteen_is_asked_or_says_what_it_waits_for() -> None:
    waiting = {number for number, each in NINETEEN.items() if each.waits_for}
    assert set(NINETEEN) == set(range(1, 20))
    assert covered() | waiting == set(NINETEEN)
    assert not covered() & waiting
