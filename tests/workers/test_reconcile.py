from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError

from memoryhub.journal import writer
from memoryhub.models.server.leases import Lease
from memoryhub.workers.reconcile import LEASE, TASKS, Reconciler, ReconcileTask
from tests.harness.forks import ROOT

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Diary:
    """A task that notes when it ran."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.at: list[datetime] = []
        self.ran = threading.Event()

    def __call__(self, now: datetime) -> int:
        self.at.append(now)
        self.ran.set()
        return self.count


def broken(now: datetime) -> int:
    raise DatabaseError("no text of a library is logged")


class Ticks:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reconciler(
    *tasks: ReconcileTask, ticks: Ticks, holder: UUID | None = None
) -> Reconciler:
    return Reconciler(
        holder=holder or uuid4(), tasks=tasks, ticks=ticks, clock=lambda: NOON
    )


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def test_task_runs_when_it_is_due(ticks: Ticks) -> None:
    often, rarely = Diary(3), Diary(0)
    loop = reconciler(
        ReconcileTask(name="often", every_seconds=10, work=often),
        ReconcileTask(name="rarely", every_seconds=3600, work=rarely),
        ticks=ticks,
    )
    assert loop.run_round() == {"often": 3, "rarely": 0}
    ticks.now = 9
    assert loop.run_round() == {}
    ticks.now = 10
    assert loop.run_round() == {"often": 3}
    assert (len(often.at), len(rarely.at)) == (2, 1)


def test_task_with_a_full_batch_is_due_again_at_once(ticks: Ticks) -> None:
    diary, other = Diary(5), Diary()
    loop = reconciler(
        ReconcileTask(name="full", every_seconds=15, work=diary, full=5),
        ReconcileTask(name="other", every_seconds=8, work=other),
        ticks=ticks,
    )
    assert loop.run_round() == {"full": 5, "other": 1}
    assert loop.compute_pause() == 0
    diary.count = 4
    assert loop.run_round() == {"full": 4}
    assert loop.compute_pause() == 8
    ticks.now = 6
    assert loop.compute_pause() == 2
    ticks.now = 9
    assert (loop.run_round(), loop.compute_pause()) == ({"other": 1}, 6)


def test_round_comes_within_ten_seconds_and_before_a_task_is_late(
    ticks: Ticks,
) -> None:
    """Idle processes come round as well, to look at the lease."""
    loop = reconciler(
        ReconcileTask(name="t", every_seconds=3600, work=Diary()), ticks=ticks
    )
    assert loop.compute_pause() == 10
    loop.run_round()
    assert loop.compute_pause() == 10
    soon = reconciler(
        ReconcileTask(name="t", every_seconds=1, work=Diary()), ticks=ticks
    )
    assert soon.run_round() == {}
    assert soon.compute_pause() == 10
    Lease.objects.update(expires_at=NOON)
    assert soon.run_round() == {"t": 1}
    assert soon.compute_pause() == 1


def test_expiry_interval_follows_its_setting(tmp_path: Path) -> None:
    every = (
        "import django; django.setup()\nfrom memoryhub.workers.reconcile import TASKS"
    )
    every += (
        "\nprint([t.every_seconds for t in TASKS if t.name in ('expiry', 'values')])"
    )
    for seconds, said in (("1", "[1, 1]"), ("3600", "[3600, 3600]")):
        assert said in run_with(seconds, every, tmp_path).stdout
    for seconds in ("0", "3601", "1.5", "soon"):
        refused = run_with(seconds, every, tmp_path)
        assert refused.returncode == 2
        assert "MEMORYHUB_EXPIRY_INTERVAL_SECONDS" in refused.stderr


def run_with(seconds: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    own = {
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_DATA": str(folder),
        "MEMORYHUB_EXPIRY_INTERVAL_SECONDS": seconds,
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **own},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_task_that_fails_stops_no_other(
    ticks: Ticks, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = Diary()
    loop = reconciler(
        ReconcileTask(name="broken", every_seconds=10, work=broken),
        ReconcileTask(name="fine", every_seconds=10, work=diary),
        ticks=ticks,
    )
    assert loop.run_round() == {"fine": 1}
    said = capsys.readouterr().out
    assert '"code": "DatabaseError"' in said
    assert "no text of a library" not in said


def test_reconciler_runs_in_one_of_two_processes(ticks: Ticks) -> None:
    mine, theirs = Diary(), Diary()
    first = reconciler(ReconcileTask(name="t", every_seconds=1, work=mine), ticks=ticks)
    second = reconciler(
        ReconcileTask(name="t", every_seconds=1, work=theirs), ticks=ticks
    )
    first.run_round()
    assert second.run_round() == {}
    Lease.objects.update(expires_at=NOON)
    assert second.run_round() == {"t": 1}
    assert first.run_round() == {}
    assert (len(mine.at), len(theirs.at)) == (1, 1)


def test_reconciler_runs_all_tasks_after_taking_over_the_lease(ticks: Ticks) -> None:
    diary = Diary()
    loop = reconciler(
        ReconcileTask(name="t", every_seconds=3600, work=diary), ticks=ticks
    )
    loop.run_round()
    Lease.objects.update(holder=uuid4())
    assert loop.run_round() == {}
    Lease.objects.update(expires_at=NOON)
    assert loop.run_round() == {"t": 1}


def test_every_task_of_ours_runs_on_an_empty_instance() -> None:
    done = Reconciler().run_round()
    assert set(done) == {task.name for task in TASKS}
    assert set(done.values()) == {0}


@pytest.fixture
def running_writer() -> Iterator[None]:
    writer.start()
    yield
    writer.stop()


@pytest.mark.django_db(transaction=True)
def test_reconciler_loop_runs_in_a_thread_and_releases_its_lease(
    running_writer: None,
) -> None:
    diary = Diary()
    loop = Reconciler(tasks=(ReconcileTask(name="t", every_seconds=10, work=diary),))
    loop.start()
    assert diary.ran.wait(20)
    loop.stop()
    lease = Lease.objects.get(name=LEASE)
    assert lease.holder == loop.holder
    assert Reconciler().run_round().keys() == {task.name for task in TASKS}
