"""Checks of an agent's own tool calls, rule by rule, and what holds of any call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.errors import ValueTooLargeError
from memoryhub.kernel.guards import bindings as bound
from memoryhub.kernel.guards import calls, checks, literals
from memoryhub.kernel.guards.bindings import Binding, Bindings
from memoryhub.kernel.guards.checks import LIMITS, GuardedExchange, GuardLimits
from memoryhub.kernel.guards.literals import NumberIndex
from memoryhub.kernel.state.calls import CallKind, RecordedCall


def bind(*values: Any, named: dict[str, float] | None = None) -> Bindings:
    found = []
    for n, result in enumerate(values, 1):
        kind, value = calls.read_result(result)
        found.append(Binding(id=f"v{n}", value=value, value_type=kind, clock=n))
    return Bindings(found, (named or {}).items())


def ran(kind: CallKind, times: int) -> list[RecordedCall]:
    call = RecordedCall(1, 0, "t", "d", kind, "success", None, 0, 64)
    return [call] * times


def know(mode: str = "default", typed: str = "", **fields: Any) -> GuardedExchange:
    numbers = NumberIndex(literals.iter_typed_numbers(typed))
    return GuardedExchange(limits=LIMITS[mode], typed=numbers, **fields)  # type: ignore[index]


def judge(name: str, arguments: Any, known: GuardedExchange) -> str:
    """Join verdict, reason of the block, and the reasons of all warnings."""
    found = checks.check_call(name, arguments, known)
    findings = [*([found.block] if found.block else []), *found.warnings]
    return " ".join([found.verdict, *(each.reason for each in findings)])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Pay $1,250 for 3 seats", [1250, 3]),
        ("on 2024-05-01, 5/1/2024 or 01.05.24 at 12:30:05", []),
        ("-3.5, 10-20 and 1e-5", [-3.5, 10, 20, 1e-5]),
        ("flight HAT12, v1.2.3", []),
        ("all of .5 or 1,250,000.75.", [0.5, 1250000.75]),
        ("9" * 5_000 + " 1e999", []),
    ],
)
def test_typed_numbers_are_read_from_texts(text: str, numbers: list[float]) -> None:
    assert [*literals.iter_typed_numbers(text)] == numbers


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("So x = 3.", {"x": 3}),
        ("**rate = 0.05** and y = $1,250, z=-2", {"rate": 0.05, "y": 1250, "z": -2}),
        ("x == 3, x != 3, x <= 3, x += 3", {}),
        ("if x = 3\nwhile y = 4\nfor z = 5 we", {}),
        ("x = 3 * 4; y = 3x; z = 2024-05-01", {}),
    ],
)
def test_assigned_numbers_are_read_from_texts(
    text: str, named: dict[str, float]
) -> None:
    assert dict(literals.iter_assigned_numbers(text)) == named


@pytest.mark.parametrize(
    ("result", "kind", "value"),
    [
        (True, "boolean", True),
        (2.5, "number", 2.5),
        ("42", "number", 42),
        ("007", "string", "007"),
        ('{"a": 1}', "json", '{"a": 1}'),
        (None, "json", None),
        ([1], "list", [1]),
        ({}, "object", {}),
    ],
)
def test_results_have_types(result: Any, kind: str, value: Any) -> None:
    assert calls.read_result(result) == (kind, value)


@pytest.mark.parametrize(
    ("arguments", "resolved", "unknown"),
    [
        ({"a": "$v1", "b": ["${v2}"]}, {"a": 2.5, "b": [{"k": 1}]}, []),
        ("is $v1 of ${v2}", 'is 2.5 of {"k":1}', []),
        ("$usd, $1,250 and $v1x", "$usd, $1,250 and $v1x", []),
        ({"a": "$v7", "b": "$share"}, {"a": "$v7", "b": 2.5}, ["v7"]),
        ("$rate", 0.05, []),
    ],
)
def test_references_become_values(
    arguments: Any, resolved: Any, unknown: list[str]
) -> None:
    named = {"share": 2.50005, "rate": 0.05, "v2": 9}
    found = bound.resolve(arguments, bind(2.5, {"k": 1}, named=named))
    assert (found.arguments, found.unknown) == (resolved, unknown)


def test_references_bring_in_a_mebibyte_at_most() -> None:
    with pytest.raises(ValueTooLargeError):
        bound.resolve(["$v1"] * 20, bind("x" * 60_000))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 51, f"{'x' * 50}…"),
        ([1, 2, 3], "[1,2,3]"),
        ([1, 2, 3, 4], "4 items"),
        (dict.fromkeys("abcd"), "4 members"),
        (0.00001, "1.000000e-05"),
        (123456, "1.234560e+05"),
        (0, "0"),
        (True, "true"),
    ],
)
def test_shown_values_are_cut(value: Any, shown: str) -> None:
    assert bound.render_shown(value) == shown


@pytest.mark.parametrize(
    ("name", "arguments", "known", "judged"),
    [
        ("fly", {"to": "BER"}, know(), "allow"),
        # Precondition: what no user typed and no call gave is missing.
        ("math.Normal_CDF", {"x": 2}, know(),
         "block missing_dependency ungrounded_args"),
        ("t_test", {"x": 2}, know(typed="2"), "block missing_dependency"),
        ("t_test", {"x": 2, "y": "$v1", "z": 1}, know(typed="1, 2", bindings=bind(7)),
         "allow"),
        ("chi_sf", {"x": 7.00005}, know(bindings=bind(7)), "block missing_dependency"),
        # Budgets.
        ("db.search_flights", {}, know(recorded=ran("discovery", 4)), "allow"),
        ("list_tools", {}, know(recorded=ran("discovery", 5)),
         "block budget_exhausted"),
        ("list_tools", {}, know("smooth", recorded=ran("discovery", 5)), "allow"),
        ("list_tools", {}, know("strict", recorded=ran("discovery", 4)),
         "block budget_exhausted"),
        ("fly", {}, know(recorded=ran("execution", 11)), "allow"),
        ("fly", {}, know(recorded=ran("execution", 12)), "block budget_exhausted"),
        ("fly", {}, know("smooth", recorded=ran("math", 15)), "block budget_exhausted"),
        ("fly", {}, know("strict", recorded=ran("math", 10)), "block budget_exhausted"),
        ("fly", {}, know(recorded=ran("math", 10) + ran("discovery", 5)),
         "block budget_exhausted"),
        # Runaway results.
        ("fly", {}, know(results=[0, 5, 1]), "warn runaway"),
        ("fly", {}, know(results=[2, 1e-13]), "warn runaway"),
        ("fly", {}, know(results=[7, 3, 7, 7]), "warn runaway"),
        ("fly", {}, know(results=[0, 0, 2, 3, 4, 5, 6]), "allow"),
        ("search", {}, know(results=[0, 0]), "allow"),
        # Ungrounded numbers.
        ("fly", {"n": 5}, know(), "warn ungrounded_args"),
        ("fly", {"n": "1,250"}, know(typed="$1250 please"), "allow"),
        ("fly", {"n": "5"}, know("smooth"), "warn ungrounded_args"),
        ("fly", {"n": 5, "sure": True}, know("strict"), "block ungrounded_args"),
        ("fly", {"n": "$v3"}, know("strict", bindings=bind(5)), "block missing_refs"),
        # Repairs, three at most.
        ("fly", {"n": 5.00009}, know("strict", bindings=bind(5)), "repair"),
        ("fly", {"n": 5.0002}, know("strict", bindings=bind(5)),
         "block ungrounded_args"),
        ("fly", {"n": [5, 5, 5, 5]}, know(bindings=bind(5)), "repair ungrounded_args"),
        # Limits of one tool.
        ("fly", {}, know(same_tool=1), "allow"),
        ("fly", {}, know(same_tool=2), "warn per_tool_limit"),
        ("fly", {}, know(same_tool=3), "block per_tool_limit"),
        ("sqrt", {}, know(same_tool=9), "allow"),
        ("get_schema", {}, know(same_tool=9), "allow"),
        # The first block wins, all warnings come along.
        ("fly", {"n": 5}, know(same_tool=3, recorded=ran("math", 12), results=[1, 1]),
         "block budget_exhausted runaway ungrounded_args"),
    ],
)  # fmt: skip
def test_rules_judge_calls(
    name: str, arguments: Any, known: GuardedExchange, judged: str
) -> None:
    assert judge(name, arguments, known) == judged


def test_limits_of_zero_are_unlimited() -> None:
    free = GuardLimits(discovery=0, execution=0, total=0, grace=0, per_tool=0)
    known = GuardedExchange(limits=free, recorded=ran("execution", 90), same_tool=90)
    assert judge("fly", {}, known) == "allow"


@pytest.mark.parametrize(("before", "verdict"), [(0, "warn"), (1, "block")])
def test_ungrounded_calls_block_beyond_the_grace(before: int, verdict: str) -> None:
    limits = LIMITS["strict"]._replace(grace=1)
    known = GuardedExchange(limits=limits, ungrounded=before)
    assert judge("fly", {"n": 5}, known).split()[0] == verdict


JSON = st.recursive(
    st.none() | st.booleans() | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["$v1", "$v2", "${v9}", "$usd", "of $v1", "5", "x"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.lists(JSON, max_size=3), st.sampled_from([*LIMITS]))
def test_check_is_pure_and_keeps_each_number(
    arguments: Any, results: list[Any], mode: str
) -> None:
    known = know(mode, bindings=bind(*results))
    given_, held = copy.deepcopy(arguments), copy.deepcopy(known.bindings.items)
    first = checks.check_call("fly", arguments, known)
    assert checks.check_call("fly", arguments, known) == first
    assert (arguments, known.bindings.items) == (given_, held)
    # A repair tells a reference; what runs is what resolving alone gives.
    assert first.arguments == bound.resolve(arguments, known.bindings).arguments
    assert len(first.repaired) <= checks.REPAIRS
    assert (first.verdict == "block") is (first.block is not None)
