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
from memoryhub.workers.reconcile import LEASE, TASKS, Reconciler, Task
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


def reconciler(*tasks: Task, ticks: Ticks, holder: UUID | None = None) -> Reconciler:
    return Reconciler(
        holder=holder or uuid4(), tasks=tasks, ticks=ticks, clock=lambda: NOON
    )


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def test_a_task_runs_when_it_is_due(ticks: Ticks) -> None:
    often, rarely = Diary(3), Diary(0)
    loop = reconciler(
        Task(name="often", every_seconds=10, work=often),
        Task(name="rarely", every_seconds=3600, work=rarely),
        ticks=ticks,
    )
    assert loop.round() == {"often": 3, "rarely": 0}
    ticks.now = 9
    assert loop.round() == {}
    ticks.now = 10
    assert loop.round() == {"often": 3}
    assert (len(often.at), len(rarely.at)) == (2, 1)


def test_what_was_full_is_due_again_at_once(ticks: Ticks) -> None:
    diary, other = Diary(5), Diary()
    loop = reconciler(
        Task(name="full", every_seconds=15, work=diary, full=5),
        Task(name="other", every_seconds=8, work=other),
        ticks=ticks,
    )
    assert loop.round() == {"full": 5, "other": 1}
    assert loop.pause() == 0
    diary.count = 4
    assert loop.round() == {"full": 4}
    assert loop.pause() == 8
    ticks.now = 6
    assert loop.pause() == 2
    ticks.now = 9
    assert (loop.round(), loop.pause()) == ({"other": 1}, 6)


def test_a_round_comes_within_ten_seconds_and_before_a_task_is_late(
    ticks: Ticks,
) -> None:
    """Also where others work, so that the lease is looked at."""
    loop = reconciler(Task(name="t", every_seconds=3600, work=Diary()), ticks=ticks)
    assert loop.pause() == 10
    loop.round()
    assert loop.pause() == 10
    soon = reconciler(Task(name="t", every_seconds=1, work=Diary()), ticks=ticks)
    assert soon.round() == {}
    assert soon.pause() == 10
    Lease.objects.update(expires_at=NOON)
    assert soon.round() == {"t": 1}
    assert soon.pause() == 1


def test_expiry_comes_round_as_it_is_set(tmp_path: Path) -> None:
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


def test_a_task_that_fails_stops_no_other(
    ticks: Ticks, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = Diary()
    loop = reconciler(
        Task(name="broken", every_seconds=10, work=broken),
        Task(name="fine", every_seconds=10, work=diary),
        ticks=ticks,
    )
    assert loop.round() == {"fine": 1}
    said = capsys.readouterr().out
    assert '"code": "DatabaseError"' in said
    assert "no text of a library" not in said


def test_of_two_processes_one_works(ticks: Ticks) -> None:
    mine, theirs = Diary(), Diary()
    first = reconciler(Task(name="t", every_seconds=1, work=mine), ticks=ticks)
    second = reconciler(Task(name="t", every_seconds=1, work=theirs), ticks=ticks)
    first.round()
    assert second.round() == {}
    Lease.objects.update(expires_at=NOON)
    assert second.round() == {"t": 1}
    assert first.round() == {}
    assert (len(mine.at), len(theirs.at)) == (1, 1)


def test_whoever_takes_over_does_everything_at_once(ticks: Ticks) -> None:
    diary = Diary()
    loop = reconciler(Task(name="t", every_seconds=3600, work=diary), ticks=ticks)
    loop.round()
    Lease.objects.update(holder=uuid4())
    assert loop.round() == {}
    Lease.objects.update(expires_at=NOON)
    assert loop.round() == {"t": 1}


def test_every_task_of_ours_runs_on_an_empty_instance() -> None:
    done = Reconciler().round()
    assert set(done) == {task.name for task in TASKS}
    assert set(done.values()) == {0}


@pytest.fixture
def running_writer() -> Iterator[None]:
    writer.start()
    yield
    writer.stop()


@pytest.mark.django_db(transaction=True)
def test_the_loop_runs_in_a_thread_and_gives_its_lease_up(
    running_writer: None,
) -> None:
    diary = Diary()
    loop = Reconciler(tasks=(Task(name="t", every_seconds=10, work=diary),))
    loop.start()
    assert diary.ran.wait(20)
    loop.stop()
    lease = Lease.objects.get(name=LEASE)
    assert lease.holder == loop.holder
    assert Reconciler().round().keys() == {task.name for task in TASKS}
