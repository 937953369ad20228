"""Conditions under which a reflection may replace its sources."""

from __future__ import annotations

import pytest

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.observing.lines import (
    Mark,
    ObservationLine,
    make_line,
    render_lines,
)
from memoryhub.kernel.observing.reflecting import (
    find_smallest_valid,
    is_valid_reflection,
)


def make_entry(text: str, mark: Mark = "critical") -> ObservationLine:
    return make_line(text, first=0, end=9, mark=mark)


BEFORE = [
    make_entry("user: I am allergic to peanuts."),
    make_entry("user: I ordered A-17 on Monday, please look where it is."),
    make_entry("assistant: I look where it is, please wait.", "medium"),
    make_entry("user: 用户喜欢披萨"),
    make_entry("user: to be or not to be"),
    make_entry("?!"),
]
SIZE = estimate_tokens(render_lines(BEFORE))
KEPT = "Peanuts: allergic. A-17 is late. 喜欢 it."


def is_valid(*texts: str, before_tokens: int = SIZE) -> bool:
    after = [make_entry(text) for text in texts]
    return is_valid_reflection(
        BEFORE, after, before_tokens=before_tokens, count=estimate_tokens
    )


def test_reflection_has_a_line_and_is_smaller() -> None:
    size = estimate_tokens(render_lines([make_entry(KEPT)]))
    assert is_valid(KEPT)
    assert not is_valid()
    assert is_valid(KEPT, before_tokens=size + 1)
    assert not is_valid(KEPT, before_tokens=size)


@pytest.mark.parametrize("gone", ["Peanuts: allergic.", "A-17", "喜欢"])
def test_every_critical_subject_is_kept(gone: str) -> None:
    assert not is_valid(KEPT.replace(gone, "user please is where I"))


def test_subjects_may_stand_in_any_line_and_case() -> None:
    assert is_valid("PEANUTS", "披萨", "a-17")


def test_subject_of_a_line_that_is_not_critical_may_be_dropped() -> None:
    before = [make_entry("assistant: Paris", "medium"), make_entry("user: Bergen")]
    after = [make_entry("Bergen")]
    assert is_valid_reflection(before, after, before_tokens=99, count=estimate_tokens)


def test_smallest_valid_reflection_is_kept() -> None:
    made = [
        [make_entry(KEPT * 2)],
        [make_entry(KEPT)],
        [make_entry(KEPT, "low")],
        [make_entry("x")],
        [],
    ]
    found = find_smallest_valid(BEFORE, made, before_tokens=SIZE, count=estimate_tokens)
    assert found == tuple(made[1])
    assert (
        find_smallest_valid(BEFORE, made[3:], before_tokens=SIZE, count=estimate_tokens)
        is None
    )
