from __future__ import annotations

from datetime import UTC, datetime
from threading import Event
from uuid import uuid4

import pytest

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Receipt
from memoryhub.models.server.leases import Lease
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import night_scans
from memoryhub.services.scan.scans import ScanResult
from memoryhub.workers import leases
from memoryhub.workers.erasures import Eraser
from memoryhub.workers.reconcile import Reconciler
from memoryhub.workers.scans import LEASE, GivenUpError, Scanner
from tests.cast.forgetting import forget, make_person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann")


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Return the present time, as the hour of night scans."""
    monkeypatch.setattr(night_scans, "NIGHT", range(24))
    return datetime.now(UTC)


def scanner(now: datetime) -> Scanner:
    return Scanner(clock=lambda: now)


def scanned() -> int:
    return AuditEntry.objects.filter(action="scanned", actor_ref="scan").count()


def test_idle_scanner_takes_no_lease(ann: Subject, night: datetime) -> None:
    assert scanner(night).run_round() == 0
    assert not Lease.objects.filter(name=LEASE).exists()


def test_scanner_runs_in_one_of_two_processes(ann: Subject, night: datetime) -> None:
    forget(ann)
    other = uuid4()
    assert leases.hold(LEASE, holder=other, now=night)
    assert scanner(night).run_round() == 0
    assert scanned() == 0
    leases.release(LEASE, holder=other, now=night)
    assert scanner(night).run_round() == 1
    assert (scanned(), Receipt.objects.filter(n__gt=0).count()) == (1, 1)
    # Given up, so that nobody waits for its end.
    assert leases.hold(LEASE, holder=other, now=night)


def test_stopped_scanner_gives_up_its_scan(ann: Subject, night: datetime) -> None:
    forget(ann)
    stopped = scanner(night)
    stopped.stop()
    assert stopped.run_round() == 0
    assert scanned() == 0
    assert scanner(night).run_round() == 1


def test_scanner_that_loses_its_lease_gives_up(ann: Subject, night: datetime) -> None:
    mine = Scanner(clock=lambda: night, beat_seconds=0.01)
    assert leases.hold(LEASE, holder=mine._lease.holder, now=night)
    with mine._lease.keep_beating():
        mine._require_running(1)
        Lease.objects.filter(name=LEASE).update(holder=uuid4())
        assert mine._lease.lost.wait(30)
        with pytest.raises(GivenUpError):
            mine._require_running(1)


def test_worker_once_scans_once_a_night(ann: Subject, night: datetime) -> None:
    """`manage.py worker --once` does such a round, however often a timer calls it."""
    forget(ann)

    def once(now: datetime) -> int:
        loop = Reconciler(tasks=(), scanner=scanner(now), eraser=Eraser())
        done = loop.run_once()
        assert done is not None
        return done["scans"]

    assert [once(night) for _ in range(3)] == [1, 0, 0]
    assert scanned() == 1


def test_reconciler_loop_scans_in_its_own_thread(
    ann: Subject, night: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(ann)
    made, run = Event(), night_scans.run_scans

    def told(progress: object) -> list[ScanResult]:
        try:
            return run()
        finally:
            made.set()

    monkeypatch.setattr(night_scans, "run_scans", told)
    loop = scanner(night)
    loop.start()
    assert made.wait(60)
    loop.stop()
    assert scanned() == 1
