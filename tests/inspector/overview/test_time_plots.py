from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from inspector.overview import charts, time_plots
from inspector.overview.time_plots import OnsetPoint

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
def test_chart_scale_covers_all_counts(
    most: float, high: float, labels: list[str]
) -> None:
    scale = time_plots.build_count_scale([0, None, most])
    assert scale.high == high
    assert [text for _, text in scale.ticks] == labels


def test_chart_of_a_small_cost_has_its_own_scale() -> None:
    assert time_plots.build_count_scale([0.013]).high == pytest.approx(0.02)


def test_chart_scale_of_shares_leaves_room_below_the_goal() -> None:
    assert time_plots.build_share_scale([0.95, None], goal=0.5).low == 0.4
    assert time_plots.build_share_scale([0.1], goal=0.5).low == 0.0


def test_chart_line_has_gaps_at_unknown_values() -> None:
    scale = time_plots.build_count_scale([2.0])
    assert time_plots.draw_line([0, None, 2], scale, HEIGHT) == "M0 86.0 L2 8.0"
    assert time_plots.draw_line([None], scale, HEIGHT) == ""


def test_chart_shows_a_lone_point() -> None:
    scale = time_plots.build_count_scale([2.0])
    assert time_plots.draw_line([None, 2.0, None], scale, HEIGHT) == "M0.5 8.0 L1.5 8.0"


def test_chart_area_ends_at_the_base() -> None:
    scale = time_plots.build_count_scale([2.0])
    assert time_plots.draw_area([2, 2], scale, HEIGHT) == "M0 8.0 L1 8.0 L1 86 L0 86Z"


def test_chart_bars_are_stacked() -> None:
    scale = time_plots.build_count_scale([4])
    one, other = time_plots.draw_stacks([("b1", [2]), ("b2", [2])], scale, HEIGHT)
    assert (one.y + one.height, other.y + other.height) == (86.0, one.y)


def test_chart_flags_close_together_are_put_in_rows() -> None:
    found = time_plots.draw_flags(
        OnsetPoint(place=place, tone="bad", number=n)
        for n, place in enumerate((0.5, 0.51, 0.9), start=1)
    )
    assert [mark.y for mark in found] == [4, 29, 4]
    assert [mark.ends for mark in found] == [False, True, True]


def test_chart_labels_are_days_over_long_ranges() -> None:
    last = datetime(2026, 3, 4, 12, tzinfo=UTC)
    days = time_plots.list_times(last - timedelta(days=30), last)
    assert [text for *_, text in days] == ["2 Feb", "4 Mar"]
    hours = time_plots.list_times(last - timedelta(hours=1), last)
    assert [text for *_, text in hours] == ["11:00", "12:00"]


def test_rare_codes_share_a_hue_in_charts() -> None:
    keys = charts.list_code_keys({"no_room": 5, "rate": 4, "not_found": 2, "value": 1})
    assert [(key.hue, key.word, key.count) for key in keys] == [
        ("b1", "no room", 5),
        ("b2", "rate", 4),
        ("b3", "others", 3),
    ]
