"""The task's state: whole sets, single fields, conditions."""

from __future__ import annotations

import pytest

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel.commands import EventDraft
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.tasks import (
    TASK,
    ClearTask,
    SetTask,
    Task,
    TaskField,
    TaskSet,
    UpdateTask,
)
from memoryhub.kernel.replay import decide
from tests.oracles.paging import Bench


def get_task(bench: Bench) -> Task:
    found = TASK.get_current(bench.state)
    assert found is not None
    return found


def decided(bench: Bench, command: SetTask) -> list[EventDraft]:
    return decide(bench.state, command, bench.rows, at=bench.at)


def test_setting_a_task_replaces_all_of_it() -> None:
    bench = Bench()
    bench.do(SetTask(status="running", fields={"data": b"{}", "description": b'"d"'}))
    first = bench.state.clock
    assert (get_task(bench).description, get_task(bench).data) == (first, first)
    bench.do(SetTask())
    clock = bench.state.clock
    # A start that is not said is now.
    assert get_task(bench) == Task(status="pending", version=clock, started_at=clock)


def test_given_start_of_a_task_is_kept() -> None:
    bench = Bench()
    (draft,) = decided(bench, SetTask(fields={"started_at": b"null"}))
    assert draft.payload == b'{"started_at":null}'
    (draft,) = decided(bench, SetTask())
    assert draft.payload == f'{{"started_at":"{bench.at.isoformat()}"}}'.encode()
    assert draft.event == TaskSet(status="pending", fields=["started_at"])


def test_concurrent_progress_not_lost() -> None:
    """An update holds only its own changes, so that those of two writers are kept."""
    bench = Bench()
    bench.do(SetTask(fields={"description": b'"d"'}))
    said = get_task(bench).description
    bench.do(UpdateTask(fields={"current_step": b"4"}))
    step = bench.state.clock
    bench.do(UpdateTask(status="blocked", fields={"data": b"{}"}))
    now = get_task(bench)
    assert (now.current_step, now.status) == (step, "blocked")
    assert (now.description, now.data) == (said, bench.state.clock)


def test_null_clears_a_task_field_and_an_empty_update_is_a_heartbeat() -> None:
    bench = Bench()
    fields: dict[TaskField, bytes] = {"description": b'"d"', "progress_percent": b"4"}
    bench.do(SetTask(fields={**fields, "data": b"{}", "current_step": b"0"}))
    before = get_task(bench)
    bench.do(UpdateTask(cleared=("progress_percent", "description")))
    after = get_task(bench)
    assert (after.progress_percent, after.description) == (None, None)
    assert (after.data, after.current_step) == (before.data, before.current_step)
    bench.do(UpdateTask())
    assert get_task(bench) == after._replace(version=bench.state.clock)


def test_completing_a_task_changes_no_other_field() -> None:
    bench = Bench()
    bench.do(SetTask(fields={"progress_percent": b"40.0"}))
    before = get_task(bench)
    bench.do(UpdateTask(status="completed"))
    assert get_task(bench).progress_percent == before.progress_percent


def test_absent_task_cannot_be_updated() -> None:
    bench = Bench()
    with pytest.raises(TaskNotFoundError):
        bench.do(UpdateTask(fields={"current_step": b"1"}))
    assert bench.do(ClearTask()) == []
    with pytest.raises(StaleError):
        bench.do(SetTask(expected=Expected(version=1)))


@pytest.mark.parametrize("kind", [SetTask, UpdateTask, ClearTask])
def test_stale_condition_leaves_the_task_unchanged(kind: type) -> None:
    bench = Bench()
    bench.do(SetTask())
    version = bench.state.seq
    state = bench.state
    with pytest.raises(StaleError) as refused:
        bench.do(kind(expected=Expected(version=version - 1)))
    assert refused.value.detail["version"] == version
    assert bench.state is state
    assert len(bench.do(kind(expected=Expected(version=version)))) == 1
