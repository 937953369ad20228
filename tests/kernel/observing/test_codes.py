"""Codes: words that name one thing, and texts shortened around them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.observing.codes import MOST, list_codes, shorten_around_codes

TEXT = "user: Sure, my reservation is NQNU5R and that was all of it"
WORDS = st.lists(st.sampled_from(["A-17", "order", "mia_li_3668", "[1", "…", "x"]))


def test_codes_have_letters_and_digits_or_are_long_numbers() -> None:
    found = list_codes(
        "Order A-17 (mia_li_3668), NQNU5R, 1234567; A-17 a.b66@example.com"
    )
    assert found == ("A-17", "mia_li_3668", "NQNU5R", "1234567", "a.b66@example.com")


def test_days_times_ordinals_and_counted_names_are_no_codes() -> None:
    said = "2026-05-20 2026-05-14T06:33:04Z 14:00:00 the 22nd line1 $2,787 a1 word"
    assert list_codes(said) == ()
    assert list_codes("x1" * 100) == ()


def test_code_list_is_limited() -> None:
    assert len(list_codes(" ".join(f"HAT{n}" for n in range(100, 500)))) == MOST


def test_shortened_text_keeps_speaker_and_codes_longest() -> None:
    assert shorten_around_codes(TEXT, 100, count=estimate_tokens) == TEXT
    assert (
        shorten_around_codes(TEXT, 9, count=estimate_tokens)
        == "user: Sure, my … NQNU5R …"
    )
    assert shorten_around_codes(TEXT, 1, count=estimate_tokens) == "user: …"
    folded = "[2 messages condensed, 3–4] A-17 B-18"
    assert (
        shorten_around_codes(folded, 1, count=estimate_tokens)
        == "[2 messages condensed, 3–4] …"
    )


@given(WORDS, st.integers(1, 30))
def test_short_text_fits_or_is_its_first_word(words: list[str], room: int) -> None:
    text = " ".join(["user:", *words])
    short = shorten_around_codes(text, room, count=estimate_tokens)
    assert short in (text, "user: …") or estimate_tokens(short) <= room
    assert short.startswith("user:")
