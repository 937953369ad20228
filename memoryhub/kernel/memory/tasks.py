"""The task's state: set, updated, cleared. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import Field

from memoryhub.errors import StaleError, TaskNotFoundError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.memory_commands import ANY_VERSION, Expected, MemoryCommand
from memoryhub.kernel.parts import Part
from memoryhub.kernel.slices import Measure, Slice
from memoryhub.kernel.state.bodies import Event, Flag, Searched, Token
from memoryhub.kernel.state.erased import Erased
from memoryhub.kernel.state.state import ThreadState

TaskStatus = Literal[
    "pending", "running", "blocked", "paused", "completed", "failed", "cancelled"
]
TASK_STATUSES: tuple[str, ...] = get_args(TaskStatus)
TaskField = Literal[
    "description", "current_step", "progress_percent", "started_at", "data"
]
TASK_FIELDS: tuple[TaskField, ...] = get_args(TaskField)
#: What its fields hold at most; progress is in percent, from 0 to 100.
MAX_STEP: Final = 1_000_000
MAX_DESCRIPTION_BYTES: Final = 4 * 1024
#: Canonical UTF-8.
MAX_DATA_BYTES: Final = 64 * 1024


class Task(NamedTuple):
    """The state of the task. Its fields lie in payloads; None: there is none."""

    status: TaskStatus
    #: Of the event that last set or updated it.
    version: int
    #: Of the events whose payloads hold them.
    description: int | None = None
    current_step: int | None = None
    progress_percent: int | None = None
    started_at: int | None = None
    data: int | None = None


class TaskSet(Event):
    """The task's state as a whole. Payload: all but its status."""

    event_type = "task.set"
    sealed = True
    searched = Searched("task", ("description", "current_step", "data"))

    status: TaskStatus
    #: Which fields the payload has.
    fields: list[TaskField] = Field(default_factory=list)


class TaskUpdated(Event):
    """Fields of the task changed; what is absent stays. Payload: all but the status."""

    event_type = "task.updated"
    sealed = True
    searched = Searched("task", ("description", "current_step", "data"))

    status: TaskStatus | None = None
    fields: list[TaskField] = Field(default_factory=list)
    cleared: list[TaskField] = Field(default_factory=list)


class TaskCleared(Event):
    """There is no task any more."""

    event_type = "task.cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTask(MemoryCommand):
    """The task as a whole; a start that is not said is now."""

    status: TaskStatus = "pending"
    #: By field: JSON text, UTF-8; `null` for a start that is said to be none.
    fields: dict[TaskField, bytes] = field(default_factory=dict)
    expected: Expected = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask(MemoryCommand):
    """Fields of the task; those not named stay."""

    status: TaskStatus | None = None
    fields: dict[TaskField, bytes] = field(default_factory=dict)
    cleared: tuple[TaskField, ...] = ()
    expected: Expected = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearTask(MemoryCommand):
    expected: Expected = ANY_VERSION


def set_task(decision: Decision, command: SetTask, pages: PageTable) -> None:
    """Set the whole of it. Emits task.set. Raises StaleError."""
    _require(decision, command.expected)
    now = f'"{decision.at.isoformat()}"'.encode()
    fields = {"started_at": now, **command.fields}
    decision.emit(
        TaskSet(status=command.status, fields=sorted(fields)), _payload(fields)
    )


def update_task(decision: Decision, command: UpdateTask, pages: PageTable) -> None:
    """Change the fields that were sent; the rest stays, whoever changed it meanwhile.

    Emits task.updated, also when nothing changes: it is a heartbeat. Raises
    TaskNotFoundError, StaleError.
    """
    if TASK.value(decision.state) is None:
        raise TaskNotFoundError
    _require(decision, command.expected)
    decision.emit(
        TaskUpdated(
            status=command.status,
            fields=sorted(command.fields),
            cleared=sorted(command.cleared),
        ),
        _payload(command.fields),
    )


def clear_task(decision: Decision, command: ClearTask, pages: PageTable) -> None:
    """Remove the task. Emits task.cleared, or nothing. Raises StaleError."""
    _require(decision, command.expected)
    if TASK.value(decision.state) is not None:
        decision.emit(TaskCleared())


def _require(decision: Decision, expected: Expected) -> None:
    task = TASK.value(decision.state)
    version = None if task is None else decision.state.seq_of(task.version)
    seen = None if expected.absent else expected.version
    if (expected.absent or seen is not None) and version != seen:
        raise StaleError(version=version)


def _payload(fields: Mapping[TaskField, bytes]) -> bytes:
    parts = [f'"{name}":'.encode() + text for name, text in sorted(fields.items())]
    return b"{" + b",".join(parts) + b"}"


def was_set(state: ThreadState, event: TaskSet) -> ThreadState:
    clock = state.clock + 1
    told_here = dict.fromkeys(event.fields, clock)
    return TASK.changed(state, Task(status=event.status, version=clock, **told_here))


def updated(state: ThreadState, event: TaskUpdated) -> ThreadState:
    task = TASK.value(state)
    assert task is not None
    clock = state.clock + 1
    changes: dict[str, Any] = dict.fromkeys(event.fields, clock)
    changes |= dict.fromkeys(event.cleared, None)
    status = event.status or task.status
    return TASK.changed(state, task._replace(status=status, version=clock, **changes))


def cleared(state: ThreadState, event: TaskCleared) -> ThreadState:
    return TASK.changed(state, None)


def _to_json(after: Task | None, before: Task | None) -> dict[str, Any]:
    return {"task": None if after is None else [*after]}


def _from_json(plain: Mapping[str, Any], before: Task | None) -> Task | None:
    return None if plain["task"] is None else Task._make(plain["task"])


def _without(task: Task | None, gone: Erased) -> Task | None:
    if task is None:
        return None
    if gone.at(task.description):
        task = task._replace(description=None)
    return task._replace(data=None) if gone.at(task.data) else task


TASK: Slice[Task | None] = Slice(
    name="task",
    empty=None,
    to_json=_to_json,
    from_json=_from_json,
    without=_without,
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
PART = Part(
    commands={
        SetTask: set_task,
        UpdateTask: update_task,
        ClearTask: clear_task,
    },
    events={
        TaskSet: was_set,
        TaskUpdated: updated,
        TaskCleared: cleared,
    },
    slice=TASK,
)
