from __future__ import annotations

import operator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import CONTENT
from memoryhub.queries.memory.value_filters import Comparison, MemberCondition

NUMBERS = st.integers(-3, 3) | st.floats(-3, 3, allow_nan=False)
TEXTS = st.text(alphabet="ab1", max_size=2)
OTHERS = st.none() | st.booleans() | st.lists(st.integers(0, 1), max_size=1)
ANY = NUMBERS | TEXTS | OTHERS


def is_met(value: Any, op: Comparison, wanted: Any) -> bool:
    return MemberCondition(member="m", op=op, value=wanted).is_met(value)


@given(ANY, ANY)
def test_conditions_compare_as_python_compares_values_of_a_kind(
    found: Any, wanted: Any
) -> None:
    kinds = [
        "number" if type(each) in (int, float) else type(each).__name__
        for each in (found, wanted)
    ]
    alike = kinds[0] == kinds[1]
    for op in get_args(Comparison):
        expected = (alike and found == wanted) is (op == "eq")
        if op not in ("eq", "ne"):
            compare = {"gte": "ge", "lte": "le"}.get(op, op)
            ordered = alike and kinds[0] in ("number", "str")
            expected = ordered and getattr(operator, compare)(found, wanted)
        assert is_met({"m": found}, op, wanted) is expected, op


@pytest.mark.parametrize("value", [None, 1, "m", ["m"], {}, {"M": 1}])
def test_absent_member_counts_as_null(value: Any) -> None:
    assert is_met(value, "eq", None)
    assert is_met(value, "ne", 1)
    assert not is_met(value, "lte", None)


def test_digits_that_are_kept_compare_by_amount() -> None:
    stored = strict_json.parse(b'{"m":1.10,"n":{"b":1,"a":1.10}}', CONTENT)
    assert is_met(stored, "eq", 1.1)
    assert is_met(stored, "gt", 1)
    nested = MemberCondition(member="n", op="eq", value={"a": 1.1, "b": 1})
    assert nested.is_met(stored)
