"""Words and figures, as templates show them."""

from __future__ import annotations

import pytest

from inspector.templatetags import units


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ""),
        ("No such thing.", "No such thing."),
        ("Raise `max_keys` or `max_bytes`.",
         "Raise <code>max_keys</code> or <code>max_bytes</code>."),
        ("`<b>` & <b>", "<code>&lt;b&gt;</code> &amp; &lt;b&gt;"),
    ],
)  # fmt: skip
def test_backticked_text_is_rendered_as_code(said: str, shown: str) -> None:
    told = units.mark_code(said)
    assert told == shown
    assert hasattr(told, "__html__")


def test_lone_backtick_stays_as_it_is() -> None:
    assert not hasattr(units.mark_code("It`s <b>"), "__html__")


def test_counts_are_rendered_in_words() -> None:
    counts = {"keys": 1, "has_task": True, "notes": 0, "pages": 1_200}
    assert units.join_counts(counts) == "1 key, a task, 1,200 pages"
    assert units.join_counts({"has_task": False, "keys": 0}) == "nothing"
