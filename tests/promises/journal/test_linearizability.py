"""Linearizability checker itself: histories to accept, and histories to reject."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from tests.promises.journal.linearizability import Operation, check_answer, order

pytestmark = pytest.mark.promise("P8", load="the checker of histories itself")


def op(
    kind: Any, called: float, returned: float = float("inf"), **told: Any
) -> Operation:
    return Operation(kind=kind, called=called, returned=returned, **told)


def test_overlapping_operations_may_be_in_any_order() -> None:
    sets = [op("set", 0, 10, word="a"), op("set", 1, 9, word="b")]
    for found in ("a", "b"):
        assert order([*sets, op("get", 11, 12, found=found)])


def test_read_from_before_an_acknowledged_write_is_found() -> None:
    late = [
        op("set", 0, 1, word="a"),
        op("set", 2, 3, word="b"),
        op("get", 4, 5, found="a"),
    ]
    assert order(late) is None


def test_two_winners_of_one_creation_are_found() -> None:
    both = [op("create", 0, 9, word="a"), op("create", 1, 8, word="b")]
    assert order(both) is None
    assert order([both[0], replace(both[1], done=False)])


def test_lost_update_is_found() -> None:
    lost = [
        op("set", 0, 1, word="a"),
        op("swap", 2, 9, seen="a", word="b"),
        op("swap", 3, 8, seen="a", word="c"),
    ]
    assert order(lost) is None


def test_value_that_reappears_is_found() -> None:
    back = [
        op("set", 0, 1, word="a"),
        op("delete", 2, 3),
        op("get", 4, 5, found=None),
        op("get", 6, 7, found="a"),
    ]
    assert order(back) is None


@pytest.mark.parametrize("found", ["a", None])
def test_unanswered_operation_may_have_happened_or_not(found: str | None) -> None:
    assert order([op("set", 0, word="a"), op("get", 5, 6, found=found)])


def test_unanswered_operation_happens_at_most_once() -> None:
    twice = [
        op("set", 0, word="a"),
        op("get", 1, 2, found="a"),
        op("delete", 3, 4),
        op("get", 5, 6, found="a"),
    ]
    assert order(twice) is None


@pytest.mark.parametrize("seed", range(60))
def test_linearizability_checker_agrees_with_exhaustive_search(seed: int) -> None:
    """Six operations of any outcome are checked against all 720 orders."""
    dice = random.Random(seed)
    history = [_any(dice, number) for number in range(6)]
    assert (order(history) is not None) is any(
        _explains(some)
        for count in range(sum(each.open for each in history) + 1)
        for some in permutations(history, len(history) - count)
        if {*history} - {*some} <= {each for each in history if each.open}
    )


def _any(dice: random.Random, number: int) -> Operation:
    called, words = dice.random() * 3, ["w0", "w1", "w2", None]
    kind = dice.choice(["get", "get", "set", "create", "swap", "delete"])
    lasted = dice.random() * 2 if kind == "get" or dice.random() < 0.8 else float("inf")
    return Operation(
        kind=kind,  # type: ignore[arg-type]  # one of them
        called=called,
        returned=called + lasted,
        word=f"w{number}" if kind in ("set", "create", "swap") else None,
        seen=dice.choice(words) if kind == "swap" else None,
        found=dice.choice(words) if kind == "get" else None,
        done=kind == "set" or dice.random() < 0.7,
    )


def _explains(some: tuple[Operation, ...]) -> bool:
    state, begun = None, 0.0
    for each in some:
        begun = max(begun, each.called)
        fits, state = check_answer(state, each)
        if not fits or begun > each.returned:
            return False
    return True
