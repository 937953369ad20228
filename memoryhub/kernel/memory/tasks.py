"""The task: deciding and folding its setting, updates and removal. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import Field

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.memory_commands import ANY_VERSION, Expected, MemoryCommand
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.slices import Measure, Slice
from memoryhub.kernel.state.bodies import EventBody, Flag, SearchSpec, Token
from memoryhub.kernel.state.erased import ErasedPlaces
from memoryhub.kernel.state.state import ThreadState

TaskStatus = Literal[
    "pending", "running", "blocked", "paused", "completed", "failed", "cancelled"
]
TASK_STATUSES: tuple[str, ...] = get_args(TaskStatus)
TaskField = Literal[
    "description", "current_step", "progress_percent", "started_at", "data"
]
TASK_FIELDS: tuple[TaskField, ...] = get_args(TaskField)
#: Largest values of the task's fields; progress is in percent, from 0 to 100.
MAX_STEP: Final = 1_000_000
MAX_DESCRIPTION_BYTES: Final = 4 * 1024
#: Bytes of canonical UTF-8.
MAX_DATA_BYTES: Final = 64 * 1024


class Task(NamedTuple):
    """State of the task. The texts of fields lie in payloads; None: no such field."""

    status: TaskStatus
    #: Clock of the event that last set or updated the task.
    version: int
    #: Clocks of the events whose payloads hold the fields.
    description: int | None = None
    current_step: int | None = None
    progress_percent: int | None = None
    started_at: int | None = None
    data: int | None = None


class TaskSet(EventBody):
    """The task was set as a whole. Payload: all fields but the status."""

    event_type = "task.set"
    sealed = True
    searched = SearchSpec("task", ("description", "current_step", "data"))

    status: TaskStatus
    #: Fields in the payload.
    fields: list[TaskField] = Field(default_factory=list)


class TaskUpdated(EventBody):
    """Fields of the task changed; absent fields stay. Payload: all but the status."""

    event_type = "task.updated"
    sealed = True
    searched = SearchSpec("task", ("description", "current_step", "data"))

    status: TaskStatus | None = None
    fields: list[TaskField] = Field(default_factory=list)
    cleared: list[TaskField] = Field(default_factory=list)


class TaskCleared(EventBody):
    """The task was removed."""

    event_type = "task.cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTask(MemoryCommand):
    """Set the task as a whole; an absent start is the present instant."""

    status: TaskStatus = "pending"
    #: JSON text by field, UTF-8; `null` for a task explicitly without a start.
    fields: dict[TaskField, bytes] = field(default_factory=dict)
    expected: Expected = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask(MemoryCommand):
    """Change fields of the task; fields not named stay."""

    status: TaskStatus | None = None
    fields: dict[TaskField, bytes] = field(default_factory=dict)
    cleared: tuple[TaskField, ...] = ()
    expected: Expected = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearTask(MemoryCommand):
    expected: Expected = ANY_VERSION


def decide_set_task(decision: Decision, command: SetTask, pages: PageTable) -> None:
    """Set the task as a whole. Emits task.set. Raises StaleError."""
    _require_expected(decision, command.expected)
    now = f'"{decision.at.isoformat()}"'.encode()
    fields = {"started_at": now, **command.fields}
    decision.emit(
        TaskSet(status=command.status, fields=sorted(fields)), _build_payload(fields)
    )


def decide_update_task(
    decision: Decision, command: UpdateTask, pages: PageTable
) -> None:
    """Change the fields that were sent; other fields keep concurrent changes.

    Emits task.updated, also when nothing changes, as a heartbeat. Raises
    TaskNotFoundError, StaleError.
    """
    if TASK.get_current(decision.state) is None:
        raise TaskNotFoundError
    _require_expected(decision, command.expected)
    decision.emit(
        TaskUpdated(
            status=command.status,
            fields=sorted(command.fields),
            cleared=sorted(command.cleared),
        ),
        _build_payload(command.fields),
    )


def decide_clear_task(decision: Decision, command: ClearTask, pages: PageTable) -> None:
    """Remove the task. Emits task.cleared, or nothing. Raises StaleError."""
    _require_expected(decision, command.expected)
    if TASK.get_current(decision.state) is not None:
        decision.emit(TaskCleared())


def _require_expected(decision: Decision, expected: Expected) -> None:
    task = TASK.get_current(decision.state)
    version = None if task is None else decision.state.to_seq(task.version)
    seen = None if expected.absent else expected.version
    if (expected.absent or seen is not None) and version != seen:
        raise StaleError(version=version)


def _build_payload(fields: Mapping[TaskField, bytes]) -> bytes:
    parts = [f'"{name}":'.encode() + text for name, text in sorted(fields.items())]
    return b"{" + b",".join(parts) + b"}"


def apply_task_set(state: ThreadState, event: TaskSet) -> ThreadState:
    clock = state.clock + 1
    told_here = dict.fromkeys(event.fields, clock)
    return TASK.replace_value(
        state, Task(status=event.status, version=clock, **told_here)
    )


def apply_task_updated(state: ThreadState, event: TaskUpdated) -> ThreadState:
    task = TASK.get_current(state)
    assert task is not None
    clock = state.clock + 1
    changes: dict[str, Any] = dict.fromkeys(event.fields, clock)
    changes |= dict.fromkeys(event.cleared, None)
    status = event.status or task.status
    return TASK.replace_value(
        state, task._replace(status=status, version=clock, **changes)
    )


def apply_task_cleared(state: ThreadState, event: TaskCleared) -> ThreadState:
    return TASK.replace_value(state, None)


def _to_json(after: Task | None, before: Task | None) -> dict[str, Any]:
    return {"task": None if after is None else [*after]}


def _from_json(plain: Mapping[str, Any], before: Task | None) -> Task | None:
    return None if plain["task"] is None else Task._make(plain["task"])


def _remove_erased(task: Task | None, gone: ErasedPlaces) -> Task | None:
    if task is None:
        return None
    if gone.has_clock(task.description):
        task = task._replace(description=None)
    return task._replace(data=None) if gone.has_clock(task.data) else task


TASK: Slice[Task | None] = Slice(
    name="task",
    empty=None,
    to_json=_to_json,
    from_json=_from_json,
    without=_remove_erased,
    measures={
        "has_task": Measure(
            read=lambda task: task is not None,
            places=frozenset({"checkpoint", "stats"}),
            kind=Flag,
        ),
        "task_status": Measure(
            read=lambda task: None if task is None else task.status,
            places=frozenset({"timeline"}),
            kind=Token,
        ),
    },
    records=lambda task: () if task is None else (task,),
    many=False,
)
PART = KernelPart(
    commands={
        SetTask: decide_set_task,
        UpdateTask: decide_update_task,
        ClearTask: decide_clear_task,
    },
    events={
        TaskSet: apply_task_set,
        TaskUpdated: apply_task_updated,
        TaskCleared: apply_task_cleared,
    },
    slice=TASK,
)
