"""Changes between two versions of a text, word by word."""

from __future__ import annotations

import pytest

from inspector.knowledge import version_changes
from inspector.knowledge.version_changes import ChangedPiece, list_changes


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        (None, "Tea.", [("", "Tea.")]),
        ("Tea.", "Tea.", [("", "Tea.")]),
        ("Tea.", "Tea, hot.", [("", "Tea"), ("come", ", hot"), ("", ".")]),
        ("a tea", "a cup", [("", "a"), ("gone", " tea"), ("come", " cup")]),
        ("", "new", [("come", "new")]),
        ("old", "", [("gone", "old")]),
        ("<b>", "<i>", [("", "<"), ("gone", "b"), ("come", "i"), ("", ">")]),
    ],
)
def test_changes_mark_words_that_came_or_are_gone(
    before: str | None, after: str, pieces: list[ChangedPiece]
) -> None:
    assert list_changes(before, after) == pieces


@pytest.mark.timeout(20)
def test_text_of_one_word_is_compared_at_once() -> None:
    """Comparing each word with each took minutes."""
    old, new = "a " * (version_changes.COMPARED - 1), "b a " * 499
    kept = [text for mark, text in list_changes(old, new) if mark != "gone"]
    assert "".join(kept) == new


def test_changes_of_long_texts_are_not_marked() -> None:
    long = "word " * version_changes.COMPARED
    assert list_changes("word", long) == [("", long)]
