from __future__ import annotations

import ast
from pathlib import Path

from tests.governance.table import NINETEEN

HERE = Path(__file__).parent


def list_covered_numbers() -> set[int]:
    """Return the numbers that tests of this folder are marked with."""
    numbers = set()
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                "mark.governance"
            ):
                numbers |= {ast.literal_eval(each) for each in node.args}
    return numbers


def test_governance_requirements_are_tested_or_tell_their_reason() -> None:
    waiting = {number for number, each in NINETEEN.items() if each.waits_for}
    assert set(NINETEEN) == set(range(1, 20))
    assert list_covered_numbers() | waiting == set(NINETEEN)
    assert not list_covered_numbers() & waiting
