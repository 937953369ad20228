"""Which reflections may stand for what they were made of."""

from __future__ import annotations

import pytest

from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.observing.lines import Line, Mark, make_line, written
from memoryhub.kernel.observing.reflecting import smallest_valid, valid


def line(text: str, mark: Mark = "critical") -> Line:
    return make_line(text, first=0, end=9, mark=mark)


BEFORE = [
    line("user: I am allergic to peanuts."),
    line("user: I ordered A-17 on Monday, please look where it is."),
    line("assistant: I look where it is, please wait.", "medium"),
    line("user: 用户喜欢披萨"),
    line("user: to be or not to be"),
    line("?!"),
]
SIZE = estimate(written(BEFORE))
KEPT = "Peanuts: allergic. A-17 is late. 喜欢 it."


def is_valid(*texts: str, before_tokens: int = SIZE) -> bool:
    after = [line(text) for text in texts]
    return valid(BEFORE, after, before_tokens=before_tokens, count=estimate)


def test_a_reflection_has_a_line_and_is_smaller() -> None:
    size = estimate(written([line(KEPT)]))
    assert is_valid(KEPT)
    assert not is_valid()
    assert is_valid(KEPT, before_tokens=size + 1)
    assert not is_valid(KEPT, before_tokens=size)


@pytest.mark.parametrize("gone", ["Peanuts: allergic.", "A-17", "喜欢"])
def test_every_critical_subject_is_kept(gone: str) -> None:
    assert not is_valid(KEPT.replace(gone, "user please is where I"))


def test_subjects_may_stand_in_any_line_and_case() -> None:
    assert is_valid("PEANUTS", "披萨", "a-17")


def test_a_subject_of_what_is_not_critical_may_go() -> None:
    before = [line("assistant: Paris", "medium"), line("user: Bergen")]
    after = [line("Bergen")]
    assert valid(before, after, before_tokens=99, count=estimate)


def test_smallest_valid_kept() -> None:
    made = [[line(KEPT * 2)], [line(KEPT)], [line(KEPT, "low")], [line("x")], []]
    found = smallest_valid(BEFORE, made, before_tokens=SIZE, count=estimate)
    assert found == tuple(made[1])
    assert smallest_valid(BEFORE, made[3:], before_tokens=SIZE, count=estimate) is None
