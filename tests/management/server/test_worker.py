"""The command `worker`: background work, and a clean stop on request."""

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
    """Start a worker; yield it once it says that it runs."""
    process = forks.start(
        ["worker"],
        env={**instance.env, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with wait_and_stop(process):
        yield process


@contextmanager
def wait_and_stop(process: Process) -> Iterator[None]:
    """Wait for the first line of the process; stop the process with the block."""
    try:
        assert process.stderr is not None
        assert "The worker runs" in process.stderr.readline()
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_stops_cleanly_on_a_signal(
    instance: Instance, number: signal.Signals
) -> None:
    with working(instance) as process:
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        assert "Traceback" not in printed
        assert "Stopping" in printed


def test_background_worker_stops_cleanly_on_sigint(instance: Instance) -> None:
    """A shell makes background jobs ignore SIGINT; a worker must not."""
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
    with wait_and_stop(process):
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
def test_workers_sweep_and_erase_expired_keys(instance: Instance, killed: int) -> None:
    """Each value is erased once, within a minute, even if the active worker dies."""
    often = {"MEMORYHUB_EXPIRY_INTERVAL_SECONDS": "1"}
    with working(instance, **often) as first, working(instance, **often):
        instance.call(f"{PROGRAM}:make", 12, 40)
        if killed:
            first.kill()
        printed = json.loads(instance.call(f"{PROGRAM}:watch", 60).splitlines()[-1])
    assert printed == {"rows": 0, "kept": 0, "erased": 480, "whole": True}


def test_worker_help_says_what_the_worker_does(instance: Instance) -> None:
    printed = instance.managed("worker", "--help")
    assert "expiry of keys" in " ".join(printed.split())
    assert "MEMORYHUB_EXPIRY_INTERVAL_SECONDS" in printed


def test_worker_once_does_all_due_work(instance: Instance) -> None:
    printed = instance.managed("worker", "--once").splitlines()
    assert {line.partition(":")[0] for line in printed} == {
        *(task.name for task in TASKS),
        *("consolidation", "deliveries", "erasures", "observing", "scans"),
    }


def test_second_worker_is_refused_while_the_server_works(instance: Instance) -> None:
    with instance.serve() as server:
        done = instance.manage("worker", "--once")
        # A killed server would hold the lease for half a minute.
        server.stop()
    assert done.returncode == 1
    assert "Another process" in done.stderr
    assert instance.managed("worker", "--once")
