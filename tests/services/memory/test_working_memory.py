from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import (
    NotFoundError,
    StaleError,
    SubjectErasedError,
    SubjectRestrictedError,
    TaskNotFoundError,
    ThreadClosedError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.memory.notes import (
    AddNotes,
    ClearNotes,
    NewNote,
)
from memoryhub.kernel.memory.tasks import (
    ClearTask,
    SetTask,
    TaskField,
    TaskUpdated,
    UpdateTask,
)
from memoryhub.models import Event, Subject
from memoryhub.queries.memory import tasks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory
from memoryhub.services.threads import threads
from tests.cast import factories
from tests.cast.factories import run

pytestmark = pytest.mark.django_db

OPERATOR = "operator:01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a47"


def submit(agent: Agent, command: MemoryCommand, **options: Any) -> OrderReceipt:
    return run(
        working_memory.submit_command(
            agent=agent, thread="t-1", command=command, **options
        )
    )


def add(agent: Agent, *texts: str, **options: Any) -> OrderReceipt:
    new = tuple(NewNote(text=f'"{each}"'.encode(), bytes=len(each)) for each in texts)
    return submit(agent, AddNotes(notes=new), born=True, **options)


def get_task(agent: Agent) -> tasks.TaskView:
    return tasks.get_task(factories.get_thread(agent))


def test_command_makes_a_thread_only_when_allowed(agent: Agent) -> None:
    with pytest.raises(NotFoundError):
        submit(agent, SetTask())
    made = submit(agent, SetTask(), born=True)
    assert (made.created, made.seq) == (True, 2)


def test_task_is_set_and_updated_field_by_field(agent: Agent) -> None:
    fields: dict[TaskField, bytes] = {
        "description": b'"Rebook"',
        "started_at": b"null",
        "data": b'{"b": 1, "a": 2}',
    }
    command = SetTask(status="running", fields=fields)
    submit(agent, command, born=True)
    assert (get_task(agent).description, get_task(agent).started_at) == ("Rebook", None)
    update = UpdateTask(fields={"current_step": b"4"}, cleared=("description",))
    told = submit(agent, update).get_event(TaskUpdated)
    assert (told.fields, told.status) == (["current_step"], None)
    assert told.cleared == ["description"]
    found = get_task(agent)
    assert (found.status, found.current_step) == ("running", 4)
    assert (found.description, list(found.data or {})) == (None, ["b", "a"])
    assert submit(agent, UpdateTask()).events != ()
    assert (
        tasks.get_task_after(submit(agent, UpdateTask())).version
        == get_task(agent).version
    )
    assert submit(agent, ClearTask()).seq == 6
    assert submit(agent, ClearTask()).events == ()
    with pytest.raises(TaskNotFoundError):
        submit(agent, UpdateTask())


def test_task_and_note_texts_stand_in_payloads_alone(agent: Agent) -> None:
    submit(agent, SetTask(fields={"description": b'"canary-7Q"'}), born=True)
    submit(agent, UpdateTask(fields={"data": b'{"a": "canary-7Q"}'}))
    add(agent, "canary-7Q")
    for event in Event.objects.all():
        assert "canary-7Q" not in event.body
        assert b"canary-7Q" not in bytes(event.payload or b"")


def test_operator_write_has_the_operator_as_actor(agent: Agent) -> None:
    """Let the operator write in spite of a restriction, which is for agents."""
    factories.make_thread(agent, user_id="ann")
    add(agent, "a")
    row = factories.get_thread(agent)
    Subject.objects.filter(id=row.subject_id).update(state="restricted")
    with pytest.raises(SubjectRestrictedError):
        add(agent, "b")
    done = working_memory.perform_command(row, ClearNotes(), actor=OPERATOR)
    assert done.events[0].actor == OPERATOR
    with pytest.raises(StaleError):
        working_memory.perform_command(row, SetTask(), actor=OPERATOR, if_match=1)
    Subject.objects.filter(id=row.subject_id).update(state="erased")
    with pytest.raises(SubjectErasedError):
        working_memory.perform_command(row, SetTask(), actor=OPERATOR)
    Subject.objects.filter(id=row.subject_id).update(state="active")
    run(threads.close(agent=agent, thread="t-1", reason="completed"))
    with pytest.raises(ThreadClosedError):
        working_memory.perform_command(row, SetTask(), actor=OPERATOR)
