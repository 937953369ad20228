"""Levels by extract/1: sizes, what is kept, what is counted as left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.context.opened import OpenedPage, get_slot_body
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.levels import levels
from memoryhub.kernel.levels.levels import LevelText
from memoryhub.kernel.levels.making import make_levels
from memoryhub.kernel.state.pages import ABSTRACT, FULL, REDUCED, REFERENCE
from memoryhub.kernel.text.json_text import dump_json

# A megabyte of anything must stay far below this; a quadratic scan would take minutes.
MEBIBYTE = 1 << 20

units = st.sampled_from(
    [
        "Hello there. ",
        "Why? ",
        "No!\n",
        "a line\n",
        "漢字です。",
        "x" * 40,
        " ",
        "😀",
        "\n",
    ]
)
prose = st.lists(units, max_size=60).map("".join) | st.text(max_size=300)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=60),
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.dictionaries(st.text(max_size=12), inner, max_size=12)
    ),
    max_leaves=40,
)


def of_text(text: str, **options: Any) -> dict[int, LevelText]:
    return levels.produce_levels(text, page_type="artifact", modality="text", **options)


def of_json(value: Any, **options: Any) -> dict[int, LevelText]:
    return levels.produce_levels(
        value, page_type="artifact", modality="structured", **options
    )


def render_content(content: Any) -> str:
    return content if isinstance(content, str) else dump_json(content)


def doubled(text: str) -> int:
    """Return another tokenizer's count, as it is derived: est/1 times a ratio."""
    return -(-estimate_tokens(text) * 17 // 8)


def assert_smaller(full: str, made: dict[int, LevelText]) -> None:
    size = estimate_tokens(full)
    for level in sorted(made):
        assert made[level].tokens == estimate_tokens(
            render_content(made[level].content)
        )
        assert 0 < made[level].tokens < size
        assert made[level].tokens <= levels.compute_cap(level, estimate_tokens(full))
        size = made[level].tokens


@settings(deadline=None)
@given(prose)
def test_each_level_of_a_text_is_smaller(text: str) -> None:
    assert_smaller(text, of_text(text))


@settings(deadline=None, max_examples=60)
@given(values)
def test_each_level_of_json_is_smaller(value: Any) -> None:
    assert_smaller(dump_json(value), of_json(value))
    assert_smaller(text := json.dumps(value, indent=2), of_text(text))


@given(prose)
def test_same_page_has_the_same_levels(text: str) -> None:
    assert of_text(text) == of_text(text)


@given(prose)
def test_level_caps_hold_for_another_tokenizer(text: str) -> None:
    for level, made in of_text(text, count=doubled).items():
        assert made.tokens == doubled(made.content)
        assert made.tokens <= levels.compute_cap(level, doubled(text))


def test_excerpt_keeps_whole_units_of_both_ends() -> None:
    text = "".join(f"This is sentence number {n}. " for n in range(100))
    excerpt = of_text(text)[REDUCED].content
    head, tail = excerpt.split(" […] ")
    assert text.startswith(head)
    assert head.endswith(".")
    assert text.rstrip().endswith(tail)
    assert tail.startswith("This is sentence")
    assert tail.endswith("99.")
    assert 0.6 < estimate_tokens(head) / (estimate_tokens(text) // 2) <= 0.7


def test_summary_keeps_the_first_units() -> None:
    text = "".join(f"Line {n} of a log\n" for n in range(100))
    summary = of_text(text)[ABSTRACT].content
    assert summary.endswith("of a log […]")
    assert text.startswith(summary.removesuffix(" […]"))


def test_reference_shows_the_type_and_the_first_line() -> None:
    text = "\n\n  Report of May\n" + "Much was done. " * 60
    assert of_text(text)[REFERENCE].content == "[artifact] Report of May"


def test_single_long_unit_is_cut_with_an_ellipsis() -> None:
    made = of_text("word " * 2_000)
    assert set(made) == {REDUCED, ABSTRACT, REFERENCE}
    assert all(level.content.endswith("[…]") for level in made.values())


def test_cut_never_halves_a_character() -> None:
    for level in of_text("😀é漢" * 500).values():
        level.content.encode()
        assert "\ufffd" not in level.content


@pytest.mark.parametrize("text", ["", "ok", " ", "\n\n\n", "yes."])
def test_short_text_at_level_2_is_served_in_full(text: str) -> None:
    made = of_text(text)
    assert made == {}
    assert levels.choose_level(made, ABSTRACT) == FULL


def test_best_level_is_the_greatest_at_or_below_the_request() -> None:
    assert levels.choose_level([REFERENCE, ABSTRACT], REFERENCE) == REFERENCE
    assert levels.choose_level([REFERENCE, ABSTRACT], ABSTRACT) == ABSTRACT
    assert levels.choose_level([REFERENCE, ABSTRACT], REDUCED) == FULL


def test_json_on_one_line_has_smaller_levels() -> None:
    rows = [{"id": n, "name": f"name {n}", "note": "so " * 50} for n in range(200)]
    text = json.dumps(rows)
    made = of_text(text)
    assert set(made) == {REDUCED, ABSTRACT, REFERENCE}
    # A text stays a text, and its excerpt is JSON still.
    pruned = json.loads(made[REDUCED].content)
    assert pruned[0]["id"] == 0
    assert pruned[-1] == "+192 more"
    assert made[ABSTRACT].content == "[200 of {id: number, name: text, note: text}]"
    assert made[REFERENCE].content == "[artifact] [200] id, name, note"


@settings(deadline=None, max_examples=60)
@given(values)
def test_any_json_is_structured(value: Any) -> None:
    for level in of_json(value).values():
        json.loads(dump_json(level.content))
    modality, text = get_slot_body(value)
    plain = isinstance(value, str) or (
        isinstance(value, dict) and isinstance(value.get("role"), str)
    )
    assert modality == ("text" if plain else "structured")
    assert isinstance(text, str) or not plain


def test_pruned_copy_counts_what_it_leaves_out() -> None:
    value = {"list": list(range(20)), "text": "x" * 230, "deep": [[[[[[[1, 2]]]]]]]}
    pruned = of_json({**value, "more": "y" * 3_000})[REDUCED].content
    assert pruned["list"] == [*range(8), "+12 more"]
    assert pruned["text"] == "x" * 200 + "… +30 more"
    assert pruned["deep"] == [[[[["+1 more"]]]]]


def test_first_trim_that_fits_is_taken() -> None:
    value = [{"text": "some words " * 10} for _ in range(9)]
    pruned = of_json(value)[REDUCED].content
    assert len(pruned) == 4
    assert pruned[-1] == "+6 more"
    assert pruned[0]["text"].endswith("… +46 more")


def test_object_wider_than_any_trim_shrinks_too() -> None:
    value = {f"key {n}": n for n in range(500)}
    pruned = of_json(value)[REDUCED].content
    assert pruned["…"] == f"+{501 - len(pruned)} more"


def test_schema_names_its_page() -> None:
    made = of_json({f"key_{n}": "x " * 30 for n in range(9)}, schema_name="booking")
    assert made[REFERENCE].content == "[artifact] booking"


def test_odd_keys_of_a_schema_are_quoted() -> None:
    made = of_json({'a "b"\n': 1, "c": ["long text " * 40]})
    assert made[ABSTRACT].content == '{"a \\"b\\"\\n": number, c: [1 of text]}'


@pytest.mark.parametrize("modality", ["image", "audio", "video"])
def test_media_have_no_levels_of_ours(modality: str) -> None:
    made = levels.produce_levels(
        {"caption": "x " * 900}, page_type="artifact", modality=modality
    )
    assert made == {}


@pytest.mark.parametrize(
    "text",
    [
        "a" * MEBIBYTE,
        "." * MEBIBYTE,
        ".\"'" * (MEBIBYTE // 3),
        "[" * MEBIBYTE,
        '["' + '\\"' * (MEBIBYTE // 2),
        "漢" * (MEBIBYTE // 3),
        "Words. " * (MEBIBYTE // 7),
    ],
    ids=["letters", "dots", "quotes", "brackets", "escapes", "wide", "words"],
)
@pytest.mark.timeout(5)
def test_mebibyte_of_text_is_levelled_quickly(text: str) -> None:
    assert set(of_text(text)) == {REDUCED, ABSTRACT, REFERENCE}


def test_media_are_dropped_before_words() -> None:
    words = "What is on this?\n[image 8000×8000, png]"
    made = levels.produce_levels(
        words, page_type="claim", modality="text", media_tokens=43_605
    )
    assert made[1].content == words
    assert made[1].tokens > made[2].tokens
    assert 1 not in levels.produce_levels("Yes", page_type="claim", modality="text")


def test_level_weighs_no_more_than_the_agents_token_count() -> None:
    """A text that says little of a large picture is cut like any other."""
    words = {"type": "text", "text": "What is this? " * 30}
    size = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    message = {"role": "user", "content": [words, size]}
    page = OpenedPage(
        page_id="slot-0",
        type="transcript",
        modality="text",
        content=message,
        role="user",
        slot=0,
    )
    whole, little = (
        make_levels(page, version=1),
        make_levels(page, version=1, tokens=100),
    )
    assert whole.levels[0].tokens > 100 > little.levels[0].tokens
