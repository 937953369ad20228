from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from inspector.overview import charts, time_plots
from inspector.overview.time_plots import Onset

HEIGHT = 104


@pytest.mark.parametrize(
    ("most", "high", "labels"),
    [
        (0, 2, ["0", "1", "2"]),
        (3, 4, ["0", "2", "4"]),
        (57, 60, ["0", "30", "60"]),
        (150_000, 200_000, ["0", "100k", "200k"]),
        (9_000_000, 10_000_000, ["0", "5M", "10M"]),
    ],
)
def test_a_scale_holds_what_was_counted(
    most: float, high: float, labels: list[str]
) -> None:
    scale = time_plots.counting([0, None, most])
    assert scale.high == high
    assert [text for _, text in scale.ticks] == labels


def test_a_small_cost_has_a_scale_of_its_own() -> None:
    assert time_plots.counting([0.013]).high == pytest.approx(0.02)


def test_a_scale_of_shares_leaves_room_below_the_goal() -> None:
    assert time_plots.shares([0.95, None], goal=0.5).low == 0.4
    assert time_plots.shares([0.1], goal=0.5).low == 0.0


def test_a_line_passes_over_what_is_unknown() -> None:
    scale = time_plots.counting([2.0])
    assert time_plots.line([0, None, 2], scale, HEIGHT) == "M0 86.0 L2 8.0"
    assert time_plots.line([None], scale, HEIGHT) == ""


def test_a_point_alone_can_be_seen() -> None:
    scale = time_plots.counting([2.0])
    assert time_plots.line([None, 2.0, None], scale, HEIGHT) == "M0.5 8.0 L1.5 8.0"


def test_an_area_ends_at_the_base() -> None:
    scale = time_plots.counting([2.0])
    assert time_plots.area([2, 2], scale, HEIGHT) == "M0 8.0 L1 8.0 L1 86 L0 86Z"


def test_bars_stand_upon_each_other() -> None:
    scale = time_plots.counting([4])
    one, other = time_plots.stacks([("b1", [2]), ("b2", [2])], scale, HEIGHT)
    assert (one.y + one.height, other.y + other.height) == (86.0, one.y)


def test_flags_that_are_near_stand_in_rows() -> None:
    found = time_plots.marks(
        Onset(place=place, tone="bad", number=n)
        for n, place in enumerate((0.5, 0.51, 0.9), start=1)
    )
    assert [mark.y for mark in found] == [4, 29, 4]
    assert [mark.ends for mark in found] == [False, True, True]


def test_times_are_days_where_many_are_shown() -> None:
    last = datetime(2026, 3, 4, 12, tzinfo=UTC)
    days = time_plots.times(last - timedelta(days=30), last)
    assert [text for *_, text in days] == ["2 Feb", "4 Mar"]
    hours = time_plots.times(last - timedelta(hours=1), last)
    assert [text for *_, text in hours] == ["11:00", "12:00"]


def test_codes_that_are_rare_share_a_hue() -> None:
    keys = charts.code_keys({"no_room": 5, "rate": 4, "not_found": 2, "value": 1})
    assert [(key.hue, key.word, key.count) for key in keys] == [
        ("b1", "no room", 5),
        ("b2", "rate", 4),
        ("b3", "others", 3),
    ]
