"""The task's state: set, updated, cleared. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel import memory_commands as commands
from memoryhub.kernel import memory_events as events
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.memory_events import TaskField
from memoryhub.kernel.parts import Part
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import Task


def set_task(course: Course, command: commands.SetTask, pages: PageTable) -> None:
    """Set the whole of it. Emits task.set. Raises StaleError."""
    _require(course, command.expected)
    now = f'"{course.at.isoformat()}"'.encode()
    fields = {"started_at": now, **command.fields}
    course.emit(
        events.TaskSet(status=command.status, fields=sorted(fields)), _payload(fields)
    )


def update_task(course: Course, command: commands.UpdateTask, pages: PageTable) -> None:
    """Change the fields that were sent; the rest stays, whoever changed it meanwhile.

    Emits task.updated, also when nothing changes: it is a heartbeat. Raises
    TaskNotFoundError, StaleError.
    """
    if course.state.memory.contents.task is None:
        raise TaskNotFoundError
    _require(course, command.expected)
    course.emit(
        events.TaskUpdated(
            status=command.status,
            fields=sorted(command.fields),
            cleared=sorted(command.cleared),
        ),
        _payload(command.fields),
    )


def clear_task(course: Course, command: commands.ClearTask, pages: PageTable) -> None:
    """Remove the task. Emits task.cleared, or nothing. Raises StaleError."""
    _require(course, command.expected)
    if course.state.memory.contents.task is not None:
        course.emit(events.TaskCleared())


def _require(course: Course, expected: commands.Expected) -> None:
    task = course.state.memory.contents.task
    version = None if task is None else course.state.seq_of(task.version)
    seen = None if expected.absent else expected.version
    if (expected.absent or seen is not None) and version != seen:
        raise StaleError(version=version)


def _payload(fields: Mapping[TaskField, bytes]) -> bytes:
    parts = [f'"{name}":'.encode() + text for name, text in sorted(fields.items())]
    return b"{" + b",".join(parts) + b"}"


def was_set(state: ThreadState, event: events.TaskSet) -> ThreadState:
    clock = state.clock + 1
    told_here = dict.fromkeys(event.fields, clock)
    return _with(state, Task(status=event.status, version=clock, **told_here))


def updated(state: ThreadState, event: events.TaskUpdated) -> ThreadState:
    task = state.memory.contents.task
    assert task is not None
    clock = state.clock + 1
    changes: dict[str, Any] = dict.fromkeys(event.fields, clock)
    changes |= dict.fromkeys(event.cleared, None)
    status = event.status or task.status
    return _with(state, task._replace(status=status, version=clock, **changes))


def cleared(state: ThreadState, event: events.TaskCleared) -> ThreadState:
    return _with(state, None)


def _with(state: ThreadState, task: Task | None) -> ThreadState:
    contents = state.memory.contents._replace(task=task)
    return state._replace(memory=state.memory._replace(contents=contents))


PART = Part(
    commands={
        commands.SetTask: set_task,
        commands.UpdateTask: update_task,
        commands.ClearTask: clear_task,
    },
    events={
        events.TaskSet: was_set,
        events.TaskUpdated: updated,
        events.TaskCleared: cleared,
    },
)
