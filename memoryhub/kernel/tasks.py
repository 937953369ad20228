"""The task's state: set, updated, cleared. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel import memory_commands as asked
from memoryhub.kernel import memory_events as told
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.memory_events import TaskField
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import Task


def set_task(course: Course, command: asked.SetTask, pages: PageTable) -> None:
    """Set the whole of it. Emits task.set. Raises StaleError."""
    _require(course, command.expected)
    now = f'"{course.at.isoformat()}"'.encode()
    fields = {"started_at": now, **command.fields}
    course.emit(
        told.TaskSet(status=command.status, fields=sorted(fields)), _payload(fields)
    )


def update_task(course: Course, command: asked.UpdateTask, pages: PageTable) -> None:
    """Change the fields that were sent; the rest stays, whoever changed it meanwhile.

    Emits task.updated, also when nothing changes: it is a heartbeat. Raises
    TaskNotFoundError, StaleError.
    """
    if course.state.memory.contents.task is None:
        raise TaskNotFoundError
    _require(course, command.expected)
    course.emit(
        told.TaskUpdated(
            status=command.status,
            fields=sorted(command.fields),
            cleared=sorted(command.cleared),
        ),
        _payload(command.fields),
    )


def clear_task(course: Course, command: asked.ClearTask, pages: PageTable) -> None:
    """Remove the task. Emits task.cleared, or nothing. Raises StaleError."""
    _require(course, command.expected)
    if course.state.memory.contents.task is not None:
        course.emit(told.TaskCleared())


def _require(course: Course, expected: asked.Expected) -> None:
    task = course.state.memory.contents.task
    version = None if task is None else course.state.seq_of(task.version)
    seen = None if expected.absent else expected.version
    if (expected.absent or seen is not None) and version != seen:
        raise StaleError(version=version)


def _payload(fields: Mapping[TaskField, bytes]) -> bytes:
    parts = [f'"{name}":'.encode() + text for name, text in sorted(fields.items())]
    return b"{" + b",".join(parts) + b"}"


def was_set(state: ThreadState, event: told.TaskSet) -> ThreadState:
    clock = state.clock + 1
    told_here = dict.fromkeys(event.fields, clock)
    return _with(state, Task(status=event.status, version=clock, **told_here))


def updated(state: ThreadState, event: told.TaskUpdated) -> ThreadState:
    task = state.memory.contents.task
    assert task is not None
    clock = state.clock + 1
    changes: dict[str, Any] = dict.fromkeys(event.fields, clock)
    changes |= dict.fromkeys(event.cleared, None)
    status = event.status or task.status
    return _with(state, task._replace(status=status, version=clock, **changes))


def cleared(state: ThreadState, event: told.TaskCleared) -> ThreadState:
    return _with(state, None)


def _with(state: ThreadState, task: Task | None) -> ThreadState:
    contents = state.memory.contents._replace(task=task)
    return state._replace(memory=state.memory._replace(contents=contents))


PART = Part(
    commands={
        asked.SetTask: set_task,
        asked.UpdateTask: update_task,
        asked.ClearTask: clear_task,
    },
    events={
        told.TaskSet: was_set,
        told.TaskUpdated: updated,
        told.TaskCleared: cleared,
    },
)
