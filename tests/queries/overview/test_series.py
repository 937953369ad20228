from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub.models.activity import ProjectHour, RefusalCount
from memoryhub.models.projects import Project
from memoryhub.queries.overview import series
from memoryhub.queries.overview.series import RANGES

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 4, 12, 7, 30, tzinfo=UTC)


def add(project: Project, minutes: int, at: datetime, **figures: int) -> None:
    ProjectHour.objects.create(project=project, minutes=minutes, at=at, **figures)


@pytest.mark.parametrize("chosen", RANGES)
def test_series_range_ends_with_the_current_bin(acme: Project, chosen: str) -> None:
    found = series.get_series(acme.id, RANGES[chosen], now=NOW)
    assert len(found.bins) == RANGES[chosen].bins
    assert found.bins[-1].at <= NOW < found.end
    whole = found.end - found.bins[0].at
    spans = {"15m": 15, "1h": 60, "24h": 24 * 60, "30d": 30 * 24 * 60}
    assert whole == timedelta(minutes=spans[chosen])


def test_each_range_reads_the_rows_of_its_width(acme: Project) -> None:
    minute = NOW.replace(second=0)
    for minutes in (1, 15, 60):
        at = minute - timedelta(minutes=minute.minute % minutes)
        add(acme, minutes, at, events=minutes)
    found = {
        chosen: series.get_series(acme.id, range_, now=NOW).whole.events
        for chosen, range_ in RANGES.items()
    }
    assert found == {"15m": 1, "1h": 1, "24h": 15, "30d": 60}


def test_hours_are_drawn_by_the_quarter_of_a_day(acme: Project) -> None:
    day = NOW.replace(hour=0, minute=0, second=0)
    for hour in range(12):
        add(acme, 60, day + timedelta(hours=hour), events=1)
    bins = series.get_series(acme.id, RANGES["30d"], now=NOW).bins
    assert [each.events for each in bins[-3:]] == [6, 6, 0]


def test_rate_is_of_the_exchanges_of_a_bin(acme: Project) -> None:
    minute = NOW.replace(second=0)
    add(acme, 1, minute, exchanges=4, faulted_exchanges=1)
    # It began in the minute before, and fetched in this one.
    add(acme, 1, minute - timedelta(minutes=1), exchanges=0, faulted_exchanges=1)
    found = series.get_series(acme.id, RANGES["15m"], now=NOW)
    assert [each.resident_rate for each in found.bins[-3:]] == [None, 0.0, 0.75]
    assert found.whole.resident_rate == 0.5


def test_percentiles_are_read_between_the_bounds(acme: Project) -> None:
    add(acme, 1, NOW.replace(second=0), within_5=50, within_10=49, slower=1)
    whole = series.get_series(acme.id, RANGES["1h"], now=NOW).whole
    assert whole.compute_wait(0.5) == 5.0
    assert whole.compute_wait(0.99) == 10.0
    assert whole.compute_wait(1.0) == 1_000.0


def test_series_without_events_has_no_wait_and_no_rate(acme: Project) -> None:
    whole = series.get_series(acme.id, RANGES["1h"], now=NOW).whole
    assert whole.compute_wait(0.99) is None
    assert whole.resident_rate is None


def test_refusals_are_those_of_the_project_by_code(
    acme: Project, zeta: Project
) -> None:
    minute = NOW.replace(second=0)
    for project in (acme, zeta):
        for code, count in (("no_room", 2), ("rate", 1)):
            RefusalCount.objects.create(
                project=project, minutes=1, at=minute, code=code, count=count
            )
    found = series.get_series(acme.id, RANGES["15m"], now=NOW)
    assert found.whole.refusals == {"no_room": 2, "rate": 1}
    assert found.bins[-1].refused == 3


def test_moment_lies_within_the_range_or_nowhere(acme: Project) -> None:
    found = series.get_series(acme.id, RANGES["1h"], now=NOW)
    first = found.bins[0].at
    assert found.find_position(first) == 0.0
    assert found.find_position(first + timedelta(minutes=30)) == 0.5
    assert found.find_position(first - timedelta(seconds=1)) is None
    assert found.find_position(found.end) is None


def test_series_costs_two_queries(
    acme: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        series.get_series(acme.id, RANGES["30d"], now=NOW)
