"""`manage.py worker`: does the background work, and ends when it is asked to."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.instances import MANAGE, ROOT, Instance


@contextmanager
def working(instance: Instance) -> Iterator[subprocess.Popen[str]]:
    """A worker that has said that it runs."""
    process = subprocess.Popen(
        [sys.executable, MANAGE, "worker"],
        cwd=ROOT,
        env=instance.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "The worker runs" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_in_good_order(
    instance: Instance, number: signal.Signals
) -> None:
    with working(instance) as process:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "Traceback" not in said
        assert "Stopping" in said


def test_two_workers_run_beside_each_other(instance: Instance) -> None:
    with working(instance) as first, working(instance) as second:
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        assert [each.wait(timeout=60) for each in (first, second)] == [0, 0]
