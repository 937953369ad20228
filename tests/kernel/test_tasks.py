"""The task's state: whole sets, single fields, conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel.memory_commands import ClearTask, Expected, SetTask, UpdateTask
from memoryhub.kernel.working_memory import Task
from tests.paging import Bench


def task(bench: Bench) -> Task:
    found = bench.state.memory.contents.task
    assert found is not None
    return found


def test_a_set_is_the_whole_of_it() -> None:
    bench = Bench()
    bench.do(SetTask(status="running", texts={"data": b"{}", "description": b'"d"'}))
    first = bench.state.clock
    assert (task(bench).description, task(bench).data) == (first, first)
    began = bench.at
    bench.do(SetTask())
    assert task(bench) == Task(
        status="pending",
        current_step=0,
        progress_percent=0.0,
        started_at=began,
        description=None,
        data=None,
        version=bench.state.clock,
    )


def test_a_start_that_was_said_counts_even_if_it_is_null() -> None:
    bench = Bench()
    bench.do(SetTask(started=True))
    assert task(bench).started_at is None


def test_times_keep_their_instant() -> None:
    bench = Bench()
    there = timezone(timedelta(hours=5, minutes=30))
    said = datetime(2026, 5, 1, 12, tzinfo=there)
    bench.do(SetTask(started=True, started_at=said))
    bench.restart()
    assert task(bench).started_at == datetime(2026, 5, 1, 6, 30, tzinfo=UTC)


def test_concurrent_progress_not_lost() -> None:
    """Each update holds only what it changes, so that two writers keep both."""
    bench = Bench()
    bench.do(SetTask(texts={"description": b'"d"'}))
    said = task(bench).description
    bench.do(UpdateTask(fields={"current_step": 4}))
    bench.do(UpdateTask(fields={"status": "blocked"}, texts={"data": b"{}"}))
    now = task(bench)
    assert (now.current_step, now.status) == (4, "blocked")
    assert (now.description, now.data) == (said, bench.state.clock)


def test_null_clears_and_nothing_is_a_heartbeat() -> None:
    bench = Bench()
    bench.do(SetTask(texts={"description": b'"d"', "data": b"{}"}))
    before = task(bench)
    bench.do(UpdateTask(cleared=("progress_percent", "description")))
    after = task(bench)
    assert (after.progress_percent, after.description) == (None, None)
    assert (after.data, after.current_step) == (before.data, 0)
    bench.do(UpdateTask())
    assert task(bench) == after._replace(version=bench.state.clock)


def test_zero_is_a_value() -> None:
    bench = Bench()
    bench.do(SetTask(current_step=3, progress_percent=50.0))
    bench.do(UpdateTask(fields={"current_step": 0, "progress_percent": 0.0}))
    assert (task(bench).current_step, task(bench).progress_percent) == (0, 0.0)


def test_completing_derives_nothing() -> None:
    bench = Bench()
    bench.do(SetTask(progress_percent=40.0))
    bench.do(UpdateTask(fields={"status": "completed"}))
    assert task(bench).progress_percent == 40.0


def test_without_a_task_there_is_nothing_to_change() -> None:
    bench = Bench()
    with pytest.raises(TaskNotFoundError):
        bench.do(UpdateTask(fields={"current_step": 1}))
    assert bench.do(ClearTask()) == []
    with pytest.raises(StaleError):
        bench.do(SetTask(expected=Expected(version=1)))


@pytest.mark.parametrize("kind", [SetTask, UpdateTask, ClearTask])
def test_a_stale_condition_changes_nothing(kind: type) -> None:
    bench = Bench()
    bench.do(SetTask())
    version = bench.state.seq
    state = bench.state
    with pytest.raises(StaleError) as refused:
        bench.do(kind(expected=Expected(version=version - 1)))
    assert refused.value.detail["version"] == version
    assert bench.state is state
    assert len(bench.do(kind(expected=Expected(version=version)))) == 1
