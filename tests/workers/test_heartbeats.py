from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoryhub.models.server.clock import SECOND_NS, clock, read_ticks_ns
from memoryhub.models.server.heartbeats import Heartbeat
from memoryhub.workers import heartbeats
from memoryhub.workers.reconcile import Reconciler

pytestmark = pytest.mark.django_db

ME, OTHER = uuid4(), uuid4()
DAY_NS = 86_400 * SECOND_NS


def another(*, ahead_ns: int = 0, silent_seconds: int = 0) -> UUID:
    """Add the heartbeat of a process beside this one, with a clock of its own."""
    silent = timedelta(seconds=silent_seconds)
    Heartbeat.objects.create(
        process=OTHER,
        beaten_at=clock.now() + timedelta(microseconds=ahead_ns // 1_000) - silent,
        ticks_ns=read_ticks_ns() - silent_seconds * SECOND_NS,
    )
    return OTHER


def processes() -> list[UUID]:
    return list(Heartbeat.objects.order_by("id").values_list("process", flat=True))


def test_heartbeat_of_a_lone_process_is_written_and_renewed(sqlite: None) -> None:
    assert heartbeats.beat(ME)
    first = Heartbeat.objects.get()
    assert heartbeats.beat(ME)
    again = Heartbeat.objects.get()
    assert (again.process, again.id) == (ME, first.id)
    assert again.ticks_ns > first.ticks_ns
    heartbeats.end(ME)
    assert processes() == []


@pytest.mark.parametrize("ahead_ns", [DAY_NS, -90 * DAY_NS, 3 * SECOND_NS])
def test_process_far_from_the_eldest_clock_stops_beating(
    sqlite: None, ahead_ns: int
) -> None:
    another(ahead_ns=ahead_ns, silent_seconds=20)
    heartbeats.compare()
    assert clock.is_skewed
    assert abs(clock.skew_ns - ahead_ns) < SECOND_NS
    assert not heartbeats.beat(ME)
    assert processes() == [OTHER]


def test_process_near_the_eldest_clock_follows_it(sqlite: None) -> None:
    another(ahead_ns=SECOND_NS)
    before = clock.time_ns()
    assert heartbeats.beat(ME)
    assert clock.time_ns() - before > 0.9 * SECOND_NS
    assert processes() == [OTHER, ME]


def test_eldest_process_follows_no_other_clock(sqlite: None) -> None:
    heartbeats.beat(ME)
    another(ahead_ns=DAY_NS)
    assert heartbeats.beat(ME)


@pytest.mark.parametrize("silent_seconds", [31, -5], ids=["died", "of another boot"])
def test_dead_process_clock_is_ignored(sqlite: None, silent_seconds: int) -> None:
    another(ahead_ns=DAY_NS, silent_seconds=silent_seconds)
    heartbeats.compare()
    assert heartbeats.beat(ME)
    assert processes() == [ME]


def test_skewed_process_stays_so_until_another_agrees(sqlite: None) -> None:
    """Alone again, the process has no other that confirms its clock."""
    heartbeats.beat(ME)
    clock.compare(DAY_NS)
    assert not heartbeats.beat(ME)
    assert processes() == []
    another()
    assert heartbeats.beat(ME)
    assert processes() == [OTHER, ME]


@pytest.mark.grown
def test_heartbeat_reads_the_databases_clock(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert heartbeats.beat(ME)
    assert processes() == []
    clock.use_source(lambda: 0)
    assert not heartbeats.beat(ME)
    assert clock.skew_ns > 50 * 365 * DAY_NS


def test_worker_stands_still_while_the_clock_is_off() -> None:
    reconciler = Reconciler()
    assert reconciler.run_round() != {}
    clock.use_source(lambda: 0)
    another(ahead_ns=DAY_NS)
    Heartbeat.objects.filter(process=reconciler.holder).delete()
    assert reconciler.run_round() == {}
