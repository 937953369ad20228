"""Codes: what stands for one thing, and texts made short around it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.observing.codes import MOST, codes, shorter

TEXT = "user: Sure, my reservation is NQNU5R and that was all of it"
WORDS = st.lists(st.sampled_from(["A-17", "order", "mia_li_3668", "[1", "…", "x"]))


def test_codes_have_letters_and_digits_or_are_long_numbers() -> None:
    found = codes("Order A-17 (mia_li_3668), NQNU5R, 1234567; A-17 a.b66@example.com")
    assert found == ("A-17", "mia_li_3668", "NQNU5R", "1234567", "a.b66@example.com")


def test_days_times_ordinals_and_counted_names_are_no_codes() -> None:
    said = "2026-05-20 2026-05-14T06:33:04Z 14:00:00 the 22nd line1 $2,787 a1 word"
    assert codes(said) == ()
    assert codes("x1" * 100) == ()


def test_a_list_of_hundreds_is_cut() -> None:
    assert len(codes(" ".join(f"HAT{n}" for n in range(100, 500)))) == MOST


def test_who_says_it_and_codes_stay_longest() -> None:
    assert shorter(TEXT, 100, count=estimate) == TEXT
    assert shorter(TEXT, 9, count=estimate) == "user: Sure, my … NQNU5R …"
    assert shorter(TEXT, 1, count=estimate) == "user: …"
    folded = "[2 messages condensed, 3–4] A-17 B-18"
    assert shorter(folded, 1, count=estimate) == "[2 messages condensed, 3–4] …"


@given(WORDS, st.integers(1, 30))
def test_a_short_text_fits_or_is_its_first_word(words: list[str], room: int) -> None:
    text = " ".join(["user:", *words])
    short = shorter(text, room, count=estimate)
    assert short in (text, "user: …") or estimate(short) <= room
    assert short.startswith("user:")
