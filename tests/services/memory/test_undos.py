"""Undos: an edit is taken back while its value is current; else nothing changes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memoryhub.errors import (
    ContentErasedError,
    InvalidError,
    StaleError,
    ThreadClosedError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.keys import EraseValues, Expiry
from memoryhub.kernel.memory.tasks import TASK, ClearTask, TaskField, UpdateTask
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys, tasks
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.replay import states
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import operator_memory, undos
from memoryhub.services.threads import operator_threads
from tests.cast import factories
from tests.oracles import memory_acts
from tests.oracles.memory_acts import DAY, MINUTE, NOON, SECOND, lasting, travel_to
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
BY = "operator:x"
NEVER = Expiry(given=True)
FIELDS: dict[TaskField, bytes] = {
    "description": b'"Rebook"',
    "current_step": b"1",
    "started_at": b'"2026-05-04T11:00:00.123456+00:00"',
}


def get_row(agent: Agent, name: str = "t-1") -> Thread:
    return factories.get_thread(agent, name)


def undo(agent: Agent, seq: int, name: str = "t-1") -> OrderReceipt:
    return undos.undo_edit(get_row(agent, name), seq, actor=BY)


def get_line(agent: Agent, key: str = "seat", name: str = "t-1") -> KeyLine:
    return keys.get_key(get_row(agent, name), key)


def list_names(agent: Agent) -> set[str]:
    return {each.name for each in keys.list_keys(get_row(agent)).items}


def get_task(agent: Agent) -> TaskView:
    return tasks.get_task(get_row(agent))


def assert_unmoved(agent: Agent, seq: int, refusal: type[Exception]) -> None:
    head = get_row(agent).head_seq
    with pytest.raises(refusal):
        undo(agent, seq)
    assert get_row(agent).head_seq == head


def test_undo_restores_value_and_expiry_and_can_be_undone(agent: Agent) -> None:
    memory_acts.set_key(agent, "seat", "12A", ttl=DAY)
    before = get_line(agent)
    edit = operator_memory.set_key(
        get_row(agent), "seat", b'"14C"', NEVER, version=before.version, actor=BY
    )
    undone = undo(agent, edit.seq)
    now = get_line(agent)
    assert (now.value, now.expires_at) == ("12A", before.expires_at)
    assert (now.set_by, now.version) == (BY, undone.seq)
    undo(agent, undone.seq)
    assert (get_line(agent).value, get_line(agent).expires_at) == ("14C", None)


def test_undo_removes_an_added_key_and_restores_a_deleted_one(agent: Agent) -> None:
    memory_acts.set_key(agent, "seat", {"row": [12]}, ttl=DAY)
    until = get_line(agent).expires_at
    added = operator_memory.set_key(
        get_row(agent), "gate", b"7", NEVER, version=None, actor=BY
    )
    undo(agent, added.seq)
    assert list_names(agent) == {"seat"}
    gone = operator_memory.delete_key(
        get_row(agent), "seat", version=get_line(agent).version, actor=BY
    )
    assert list_names(agent) == set()
    undo(agent, gone.seq)
    assert (get_line(agent).value, get_line(agent).expires_at) == ({"row": [12]}, until)


def test_undo_of_a_retime_restores_the_expiry_alone(agent: Agent) -> None:
    memory_acts.set_key(agent, "seat", "12A")
    edit = operator_memory.retime_key(
        get_row(agent),
        "seat",
        lasting(MINUTE),
        version=get_line(agent).version,
        actor=BY,
    )
    undone = undo(agent, edit.seq)
    assert memory_acts.kinds(undone) == ["key.retimed"]
    assert (get_line(agent).value, get_line(agent).expires_at) == ("12A", None)


def test_undo_in_a_fork_restores_the_inherited_value(agent: Agent) -> None:
    memory_acts.set_key(agent, "seat", "12A")
    parent = get_row(agent)
    operator_threads.fork(parent, actor=BY, name="alt", seq=parent.head_seq)
    seen = get_line(agent, name="alt").version
    edit = operator_memory.set_key(
        get_row(agent, "alt"), "seat", b'"14C"', NEVER, version=seen, actor=BY
    )
    undo(agent, edit.seq, "alt")
    assert get_line(agent, name="alt").value == "12A"
    assert get_row(agent).head_seq == parent.head_seq


def test_overwritten_edit_is_not_undone(agent: Agent) -> None:
    first = memory_acts.set_key(agent, "seat", "12A").seq
    memory_acts.set_key(agent, "seat", "14C")
    assert_unmoved(agent, first, StaleError)
    gone = memory_acts.delete_key(agent, "seat").seq
    memory_acts.set_key(agent, "seat", "9F")
    assert_unmoved(agent, gone, StaleError)
    begun = memory_acts.set_task(agent, fields=FIELDS).seq
    act(agent, UpdateTask(status="running"))
    assert_unmoved(agent, begun, StaleError)
    assert (get_line(agent).value, get_task(agent).status) == ("9F", "running")


def test_undo_does_not_restore_an_expired_value(agent: Agent) -> None:
    with travel_to(NOON):
        memory_acts.set_key(agent, "seat", "12A", ttl=MINUTE)
        edit = memory_acts.set_key(agent, "seat", "14C")
    with travel_to(NOON + 2 * MINUTE):
        assert_unmoved(agent, edit.seq, InvalidError)
        assert get_line(agent).value == "14C"
    with travel_to(NOON + SECOND):
        # The value of this edit has expired itself.
        brief = memory_acts.set_key(agent, "gate", 7, ttl=MINUTE)
    with travel_to(NOON + 2 * MINUTE):
        assert_unmoved(agent, brief.seq, StaleError)


def test_undo_does_not_restore_an_erased_value(agent: Agent) -> None:
    with travel_to(NOON):
        old = memory_acts.set_key(agent, "seat", "12A", ttl=MINUTE)
        edit = memory_acts.set_key(agent, "seat", "14C")
    with travel_to(NOON + 2 * MINUTE):
        due = EraseValues(seqs=(old.seq,), grace=timedelta())
        assert act(agent, due, "t-1").events
        assert_unmoved(agent, edit.seq, ContentErasedError)


def test_undo_of_an_event_that_is_no_edit_is_refused(agent: Agent) -> None:
    factories.append(agent, "t-1", "hello")
    memory_acts.set_key(agent, "seat")
    memory_acts.clear(agent)
    for seq in (0, 1, 2, 4, 99):
        assert_unmoved(agent, seq, InvalidError)


def test_undo_in_a_closed_thread_is_refused(agent: Agent) -> None:
    edit = memory_acts.set_key(agent, "seat", "12A")
    operator_threads.close(get_row(agent), actor=BY, reason="completed")
    assert_unmoved(agent, edit.seq, ThreadClosedError)


def test_undo_of_a_task_update_restores_its_fields_alone(agent: Agent) -> None:
    memory_acts.set_task(agent, status="running", fields=FIELDS)
    before = get_task(agent)
    changes: dict[TaskField, bytes] = {"current_step": b"2", "progress_percent": b"9.5"}
    update = UpdateTask(status="blocked", fields=changes, cleared=("started_at",))
    edit = act(agent, update)
    undone = undo(agent, edit.seq)
    now = get_task(agent)
    assert memory_acts.kinds(undone) == ["task.updated"]
    for name in ("status", "description", "current_step", "progress_percent"):
        assert getattr(now, name) == getattr(before, name), name
    assert now.started_at == before.started_at
    held = TASK.get_current(states.load_state(get_row(agent)))
    assert held is not None
    # A field that the update did not touch keeps its place.
    assert held.description == before.version


def test_undo_restores_a_cleared_task_and_removes_a_begun_one(agent: Agent) -> None:
    fields: dict[TaskField, bytes] = {**FIELDS, "started_at": b"null"}
    memory_acts.set_task(agent, status="paused", fields=fields)
    before = get_task(agent)
    cleared = act(agent, ClearTask())
    undone = undo(agent, cleared.seq)
    now = get_task(agent)
    assert (now.status, now.description, now.current_step) == ("paused", "Rebook", 1)
    assert (now.started_at, now.data) == (None, before.data)
    undo(agent, undone.seq)
    assert TASK.get_current(states.load_state(get_row(agent))) is None
