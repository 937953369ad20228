from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoryhub.models.server.clock import SECOND_NS, clock, ticks_ns
from memoryhub.models.server.heartbeats import Heartbeat
from memoryhub.workers import heartbeats
from memoryhub.workers.reconcile import Reconciler

pytestmark = pytest.mark.django_db

ME, OTHER = uuid4(), uuid4()
DAY_NS = 86_400 * SECOND_NS


def another(*, ahead_ns: int = 0, silent_seconds: int = 0) -> UUID:
    """A process that runs beside this one, with a clock of its own."""
    silent = timedelta(seconds=silent_seconds)
    Heartbeat.objects.create(
        process=OTHER,
        beaten_at=clock.now() + timedelta(microseconds=ahead_ns // 1_000) - silent,
        ticks_ns=ticks_ns() - silent_seconds * SECOND_NS,
    )
    return OTHER


def processes() -> list[UUID]:
    return list(Heartbeat.objects.order_by("id").values_list("process", flat=True))


def test_who_is_alone_is_right_and_says_that_it_lives(sqlite: None) -> None:
    assert heartbeats.beat(ME)
    first = Heartbeat.objects.get()
    assert heartbeats.beat(ME)
    again = Heartbeat.objects.get()
    assert (again.process, again.id) == (ME, first.id)
    assert again.ticks_ns > first.ticks_ns
    heartbeats.end(ME)
    assert processes() == []


@pytest.mark.parametrize("ahead_ns", [DAY_NS, -90 * DAY_NS, 3 * SECOND_NS])
def test_who_differs_from_the_eldest_is_off(sqlite: None, ahead_ns: int) -> None:
    another(ahead_ns=ahead_ns, silent_seconds=20)
    heartbeats.compare()
    assert clock.skewed
    assert abs(clock.skew_ns - ahead_ns) < SECOND_NS
    assert not heartbeats.beat(ME)
    assert processes() == [OTHER]


def test_who_differs_a_little_follows_the_eldest(sqlite: None) -> None:
    another(ahead_ns=SECOND_NS)
    before = clock.time_ns()
    assert heartbeats.beat(ME)
    assert clock.time_ns() - before > 0.9 * SECOND_NS
    assert processes() == [OTHER, ME]


def test_the_eldest_follows_nobody(sqlite: None) -> None:
    heartbeats.beat(ME)
    another(ahead_ns=DAY_NS)
    assert heartbeats.beat(ME)


@pytest.mark.parametrize("silent_seconds", [31, -5], ids=["died", "of another boot"])
def test_the_dead_are_believed_no_more(sqlite: None, silent_seconds: int) -> None:
    another(ahead_ns=DAY_NS, silent_seconds=silent_seconds)
    heartbeats.compare()
    assert heartbeats.beat(ME)
    assert processes() == [ME]


def test_who_is_off_stays_so_until_another_agrees(sqlite: None) -> None:
    """Alone again, it still has nobody who says that it was right."""
    heartbeats.beat(ME)
    clock.compare(DAY_NS)
    assert not heartbeats.beat(ME)
    assert processes() == []
    another()
    assert heartbeats.beat(ME)
    assert processes() == [OTHER, ME]


@pytest.mark.grown
def test_the_database_tells_the_time(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert heartbeats.beat(ME)
    assert processes() == []
    clock.hook(lambda: 0)
    assert not heartbeats.beat(ME)
    assert clock.skew_ns > 50 * 365 * DAY_NS


def test_the_worker_stands_still_while_the_clock_is_off() -> None:
    reconciler = Reconciler()
    assert reconciler.round() != {}
    clock.hook(lambda: 0)
    another(ahead_ns=DAY_NS)
    Heartbeat.objects.filter(process=reconciler.holder).delete()
    assert reconciler.round() == {}
