"""The task's state: set, updated, cleared. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel import memory_commands as asked
from memoryhub.kernel import memory_events as told
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.memory_events import TaskField
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import Task


def set_task(course: Course, command: asked.SetTask, pages: PageTable) -> None:
    """Set the whole of it. Emits task.set. Raises StaleError."""
    _require(course, command.expected)
    course.emit(
        told.TaskSet(
            status=command.status,
            current_step=command.current_step,
            progress_percent=command.progress_percent,
            started_at=command.started_at if command.started else course.at,
            texts=sorted(command.texts),
        ),
        _payload(command.texts),
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
            **command.fields,
            texts=sorted(command.texts),
            cleared=sorted(command.cleared),
        ),
        _payload(command.texts),
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


def _payload(texts: Mapping[TaskField, bytes]) -> bytes:
    parts = [f'"{name}":'.encode() + text for name, text in sorted(texts.items())]
    return b"{" + b",".join(parts) + b"}"


def was_set(state: ThreadState, event: told.TaskSet) -> ThreadState:
    clock = state.clock + 1
    task = Task(
        status=event.status,
        current_step=event.current_step,
        progress_percent=event.progress_percent,
        started_at=event.started_at,
        description=clock if "description" in event.texts else None,
        data=clock if "data" in event.texts else None,
        version=clock,
    )
    return _with(state, task)


def updated(state: ThreadState, event: told.TaskUpdated) -> ThreadState:
    task = state.memory.contents.task
    assert task is not None
    clock = state.clock + 1
    plain = event.model_dump(exclude={"texts", "cleared"}, exclude_none=True)
    changes: dict[str, Any] = {**plain, **dict.fromkeys(event.texts, clock)}
    changes |= dict.fromkeys(event.cleared, None)
    return _with(state, task._replace(version=clock, **changes))


def cleared(state: ThreadState, event: told.TaskCleared) -> ThreadState:
    return _with(state, None)


def _with(state: ThreadState, task: Task | None) -> ThreadState:
    contents = state.memory.contents._replace(task=task)
    return state._replace(memory=state.memory._replace(contents=contents))
