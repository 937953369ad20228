from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.text import references
from memoryhub.kernel.text.references import References, list_ids


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Booking JG7FMM of mia_li_3668, please.", ["JG7FMM", "mia_li_3668"]),
        ("gift_card_1234567/HAT136", ["gift_card_1234567", "HAT136"]),
        ("ABC12 and again ABC12", ["ABC12"]),
        ("123456 2024-05-15 hello A1 AB12 under_score", []),
        (f"{'x' * 63}1 {'x' * 64}1", [f"{'x' * 63}1"]),
        ("", []),
    ],
)
def test_id_is_a_word_of_letters_and_digits(text: str, found: list[str]) -> None:
    assert list_ids(text) == found


def test_earlier_slots_come_newest_first_in_the_order_of_the_text() -> None:
    references = References()
    assert references.note(0, "AAAA1 BBBB1") == []
    assert references.note(1, "BBBB1 CCCC1") == [(0,)]
    assert references.note(2, "CCCC1, BBBB1, DDDD1") == [(1,), (1, 0)]
    assert references.note(2, "AAAA1") == [(0,)]


def test_text_full_of_ids_is_read_up_to_a_limit() -> None:
    text = " ".join(f"AB{n:05}" for n in range(200))
    assert len(list_ids(text)) == references.IDS_OF_TEXT


@given(st.lists(st.text("AB1_ ", max_size=200), max_size=60))
def test_references_are_bounded_and_never_name_their_own_slot(
    texts: list[str],
) -> None:
    noted = References()
    for slot, text in enumerate(texts):
        for earlier in noted.note(slot, text):
            assert len(earlier) <= references.SLOTS_KEPT
            assert list(earlier) == sorted(set(earlier), reverse=True)
            assert max(earlier) < slot
            assert all(
                set(list_ids(texts[each])) & set(list_ids(text)) for each in earlier
            )


def test_ids_named_longest_ago_are_forgotten_first() -> None:
    noted = References()
    noted.note(0, "OLD01 KEPT1")
    for slot in range(1, references.IDS_KEPT + 1):
        noted.note(slot, f"NEW{slot:05} KEPT1")
    assert noted.note(9_999, "OLD01") == []
    assert noted.note(9_999, "KEPT1") != []
