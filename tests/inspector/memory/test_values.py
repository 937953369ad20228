"""Values on one line, and differences between two values."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.memory.values import AROUND, GLIMPSED, SHOWN, build_glimpse, diff_values


def render_marked(before: Any, after: Any) -> list[str]:
    signs = {"same": " ", "gone": "-", "come": "+", "cut": "…"}
    return [signs[line.mark] + line.text for line in diff_values(before, after)]


def test_short_value_is_shown_whole() -> None:
    assert build_glimpse({"a": [1, None]}).text == '{"a":[1,null]}'
    assert build_glimpse("12A").text == '"12A"'
    assert build_glimpse("12A").whole == ""


def test_long_value_is_cut_and_can_be_unfolded() -> None:
    found = build_glimpse({"text": "x" * 300})
    assert len(found.text) == GLIMPSED + 1
    assert found.text.endswith("…")
    assert found.whole.startswith('{\n  "text"')
    assert not found.cut
    assert build_glimpse("y" * 9_000).cut


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("12A", "14C", ['-"12A"', '+"14C"']),
        (1, True, ["-1", "+true"]),
        (1, 1.0, ["-1", "+1.0"]),
        ("a", {"a": 1}, ['-"a"', "+{", '+  "a": 1', "+}"]),
        ("one\ntwo", "one\n2", [" one", "-two", "+2"]),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_value_diff_shows_changed_lines_with_context(
    before: Any, after: Any, lines: list[str]
) -> None:
    assert render_marked(before, after) == lines


def test_value_diff_omits_lines_between_distant_changes() -> None:
    before, after = list(range(60)), list(range(60))
    after[3], after[50] = -1, -1
    found = render_marked(before, after)
    assert found.count("…") == 1
    assert len(found) == 2 * (2 * AROUND + 2) + 1
    assert len(diff_values([0] * 300, [1] * 300)) == SHOWN + 1
