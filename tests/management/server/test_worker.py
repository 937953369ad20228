"""`manage.py worker`: does the background work, and ends when it is asked to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memoryhub.workers.reconcile import TASKS
from tests.harness import forks
from tests.harness.forks import MANAGE, ROOT, Process
from tests.harness.instances import Instance

PROGRAM = "tests.management.expiring"


@contextmanager
def working(instance: Instance, **env: str) -> Iterator[Process]:
    """A worker that has said that it runs."""
    process = forks.start(
        ["worker"],
        env={**instance.env, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with ended(process):
        yield process


@contextmanager
def ended(process: Process) -> Iterator[None]:
    """From its first words to its end, which comes with the block."""
    try:
        assert process.stderr is not None
        assert "The worker runs" in process.stderr.readline()
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_in_good_order(
    instance: Instance, number: signal.Signals
) -> None:
    with working(instance) as process:
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        assert "Traceback" not in printed
        assert "Stopping" in printed


def test_a_worker_in_the_background_ends_in_good_order(instance: Instance) -> None:
    """A shell has what it runs in the background ignore SIGINT; a worker does not."""
    background = 'trap "" INT; exec "$0" "$@"'
    process = subprocess.Popen(
        ["sh", "-c", background, sys.executable, MANAGE, "worker"],
        cwd=ROOT,
        env=instance.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended(process):
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        assert "Stopping" in printed


def test_two_workers_run_beside_each_other(instance: Instance) -> None:
    with working(instance) as first, working(instance) as second:
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        assert [each.wait(timeout=60) for each in (first, second)] == [0, 0]


@pytest.mark.promise("P9", load="480 keys, 2 workers, {killed} killed")
@pytest.mark.parametrize("killed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_workers_sweep_what_expires_and_erase_it(
    instance: Instance, killed: int
) -> None:
    """Each value goes once and within a minute, also if the one that works dies."""
    often = {"MEMORYHUB_EXPIRY_INTERVAL_SECONDS": "1"}
    with working(instance, **often) as first, working(instance, **often):
        instance.call(f"{PROGRAM}:make", 12, 40)
        if killed:
            first.kill()
        printed = json.loads(instance.call(f"{PROGRAM}:watch", 60).splitlines()[-1])
    assert printed == {"rows": 0, "kept": 0, "erased": 480, "whole": True}


def test_the_help_says_what_it_does(instance: Instance) -> None:
    printed = instance.managed("worker", "--help")
    assert "expiry of keys" in " ".join(printed.split())
    assert "MEMORYHUB_EXPIRY_INTERVAL_SECONDS" in printed


def test_a_worker_does_all_that_is_due_once(instance: Instance) -> None:
    printed = instance.managed("worker", "--once").splitlines()
    assert {line.partition(":")[0] for line in printed} == {
        *(task.name for task in TASKS),
        *("consolidation", "erasures", "observing", "scans"),
    }


def test_of_two_workers_only_one_works(instance: Instance) -> None:
    with instance.serve() as server:
        done = instance.manage("worker", "--once")
        # Killed, it would keep the work to itself for half a minute.
        server.stop()
    assert done.returncode == 1
    assert "Another process" in done.stderr
    assert instance.managed("worker", "--once")
