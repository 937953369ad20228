"""est/1: weights, rounding, and what counts as a slot's text."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens


def by_the_definition(text: str) -> int:
    total = Fraction(0)
    for char in text:
        if char.isascii():
            if char.isalpha():
                total += Fraction(1, 8)
            elif char.isdigit():
                total += Fraction(1, 2)
            elif char != "\n":
                total += Fraction(5, 8)
        elif ord(char) < 0x2E80:
            total += Fraction(1, 3)
        else:
            total += 2 if ord(char) > 0xFFFF else 1
    return max(1, ceil(total)) if text else 0


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_estimate_is_the_sum_of_its_weights(text: str) -> None:
    assert estimate_tokens(text) == by_the_definition(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("\n", 1), ("a" * 8, 1), ("12", 1), ("漢字", 2), ("😀", 2)],
)
def test_estimate_matches_known_counts(text: str, count: int) -> None:
    assert estimate_tokens(text) == count
