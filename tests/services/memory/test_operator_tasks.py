"""Acts of operators on the task."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from memoryhub.errors import InvalidError, StaleError, TaskNotFoundError
from memoryhub.kernel.memory.tasks import TaskField, TaskUpdated, UpdateTask
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import tasks
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import operator_tasks
from memoryhub.services.memory.operator_tasks import TaskValues
from tests.cast import factories
from tests.oracles import memory_acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
BY = "operator:x"
BEGUN = datetime(2026, 5, 4, 11, 0, 0, 123456, tzinfo=UTC)
FIELDS: dict[TaskField, bytes] = {
    "description": b'"Rebook"',
    "current_step": b"1",
    "progress_percent": b"12.5",
    "started_at": b'"2026-05-04T11:00:00.123456+00:00"',
    "data": b'{"b":1,"a":[true]}',
}


@pytest.fixture
def thread(agent: Agent) -> Thread:
    memory_acts.set_task(agent, status="running", fields=FIELDS)
    return factories.get_thread(agent)


def get_task(agent: Agent) -> TaskView:
    return tasks.get_task(factories.get_thread(agent))


def build_values(agent: Agent, **changes: Any) -> TaskValues:
    seen = get_task(agent)
    values = TaskValues(
        status=seen.status,  # type: ignore[arg-type]  # one of them, as it was stored
        description=seen.description,
        current_step=seen.current_step,
        progress_percent=seen.progress_percent,
        started_at=seen.started_at,
        data=seen.data,
    )
    return replace(values, **changes)


def test_changed_task_fields_alone_are_written(agent: Agent, thread: Thread) -> None:
    seen = get_task(agent).version
    values = build_values(agent, status="blocked", current_step=2, data=None)
    receipt = operator_tasks.set_task(thread, values, version=seen, actor=BY)
    assert receipt is not None
    event = receipt.get_event(TaskUpdated)
    assert (event.status, event.fields) == ("blocked", ["current_step"])
    assert event.cleared == ["data"]
    now = get_task(agent)
    assert (now.status, now.current_step, now.data) == ("blocked", 2, None)
    assert (now.description, now.started_at) == ("Rebook", BEGUN)


def test_unchanged_task_writes_no_event(agent: Agent, thread: Thread) -> None:
    seen, head = get_task(agent).version, thread.head_seq
    same = build_values(agent)
    assert operator_tasks.set_task(thread, same, version=seen, actor=BY) is None
    assert factories.get_thread(agent).head_seq == head
    # Python's `True` equals 1, but JSON's `true` is another value.
    other = build_values(agent, data={"b": True, "a": [True]})
    assert operator_tasks.set_task(thread, other, version=seen, actor=BY) is not None


def test_task_of_another_version_is_not_changed(agent: Agent, thread: Thread) -> None:
    seen, values = get_task(agent).version, build_values(agent, current_step=5)
    act(agent, UpdateTask(status="paused"))
    for version in (seen, 99, None):
        with pytest.raises(StaleError):
            operator_tasks.set_task(
                factories.get_thread(agent), values, version=version, actor=BY
            )
    with pytest.raises(StaleError):
        operator_tasks.clear_task(thread, version=seen, actor=BY)
    assert (get_task(agent).status, get_task(agent).current_step) == ("paused", 1)


def test_task_is_begun_and_cleared(agent: Agent) -> None:
    factories.make_thread(agent)
    row = factories.get_thread(agent)
    values = TaskValues(status="pending", current_step=0)
    operator_tasks.set_task(row, values, version=None, actor=BY)
    begun = get_task(agent)
    assert (begun.status, begun.current_step) == ("pending", 0)
    assert begun.started_at is not None
    operator_tasks.clear_task(row, version=begun.version, actor=BY)
    with pytest.raises(TaskNotFoundError):
        get_task(agent)
    with pytest.raises(StaleError):
        operator_tasks.set_task(
            factories.get_thread(agent), values, version=begun.version, actor=BY
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "done"),
        ("description", "x" * 4_097),
        ("current_step", -1),
        ("current_step", 1_000_001),
        ("progress_percent", 100.1),
        ("progress_percent", float("nan")),
        ("started_at", datetime(1969, 1, 1, tzinfo=UTC)),
        ("data", {"x": "y" * 65_536}),
    ],
)
def test_invalid_task_field_is_refused(
    agent: Agent, thread: Thread, field: str, value: object
) -> None:
    seen = get_task(agent).version
    with pytest.raises(InvalidError) as refusal:
        operator_tasks.set_task(
            thread, build_values(agent, **{field: value}), version=seen, actor=BY
        )
    assert refusal.value.loc == field
    for text in ("a\x00b", "\ud800"):
        with pytest.raises(JsonRefusedError):
            operator_tasks.set_task(
                thread, build_values(agent, description=text), version=seen, actor=BY
            )
    assert get_task(agent).version == seen
