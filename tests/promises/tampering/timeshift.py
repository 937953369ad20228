"""Processes that are told another time than the machine's, by libfaketime."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from memoryhub import journal
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.workers.reconcile import Reconciler
from tests.cast.factories import append, make_agent, make_project
from tests.promises.journal.appender import tell

BEHIND, AHEAD = "-1d", "+90d"


def build_shifted_env(by: str) -> dict[str, str]:
    """Return the environment that shifts a process's time by `by`."""
    return {**_faketime(), "FAKETIME": by}


def build_steered_env(file: Path) -> dict[str, str]:
    """Return the environment that shifts a process's time by a file's content."""
    file.write_text("+0")
    named = {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}
    return {**_faketime(), **named}


@cache
def _faketime() -> dict[str, str]:
    """Return libfaketime's environment: its program would be one more process."""
    found = shutil.which("faketime")
    if found is None:
        pytest.skip("needs faketime")
    asked = [found, "-f", "+0", "printenv", "LD_PRELOAD"]
    preload = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return {
        "LD_PRELOAD": preload.strip().replace("libfaketime.so", "libfaketimeMT.so"),
        # No clock changes for how long a machine has run.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


# Functions run in a process


def keep_for(days: int) -> None:
    """Keep all threads for so long after their last use."""
    journal.run(lambda: Project.objects.update(retention_idle_days=days))


def reconcile() -> None:
    """Run a round of all background work; print its counts, and threads' states."""
    _run_round(Reconciler())


def reconcile_across_jumps(file: str) -> None:
    """Run a round on a present thread, and one after each change of the clock."""
    append(make_agent(make_project("acme")), "t-1", "x")
    keep_for(30)
    holder = uuid4()
    _run_round(Reconciler(holder=holder))
    for by in (BEHIND, AHEAD):
        before = datetime.now(UTC)
        Path(file).write_text(by)
        assert abs(datetime.now(UTC) - before) > timedelta(hours=23)
        # All is due in a first round; the lease is the last one's.
        _run_round(Reconciler(holder=holder))


def _run_round(reconciler: Reconciler) -> None:
    done = reconciler.run_round()
    statuses = dict(Thread.objects.values_list("name", "status"))
    tell(json.dumps({"done": done, "threads": statuses}))
