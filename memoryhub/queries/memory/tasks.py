"""The task of a thread, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.errors import ContentErasedError, TaskNotFoundError
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.tasks import TASK, TASK_FIELDS, Task, TaskField
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.memory.slice_views import Found, SliceView
from memoryhub.queries.replay import payloads
from memoryhub.queries.replay.state_files import StateFile, record_of
from memoryhub.queries.replay.states import state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """The task's state with its fields."""

    status: str
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: datetime | None
    updated_at: datetime
    #: The number of the event that last set or updated it; ≤ 0 if inherited.
    version: int
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """The task of a thread."""

    thread: UUID
    status: str
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: datetime | None
    updated_at: datetime
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field that has another value, or is on one side only."""

    name: str
    before: Any
    after: Any


def get_task(thread: Thread, *, seq: int | None = None) -> TaskView:
    """The task. `thread` comes with its subject. At most two queries once it is warm.

    Raises TaskNotFoundError.
    """
    state = state_of(thread, seq)
    task = TASK.value(state)
    if task is None:
        raise TaskNotFoundError
    return view_of(thread, state, task)


def after(receipt: Receipt) -> TaskView:
    """The task once a command was done. Two queries."""
    thread = Thread.objects.select_related("subject").get(id=receipt.thread)
    state = receipt.state or state_of(thread, receipt.seq)
    task = TASK.value(state)
    if task is None:
        raise TaskNotFoundError
    return view_of(thread, state, task)


def view_of(thread: Thread, state: ThreadState, task: Task) -> TaskView:
    """A task that the state or one of its checkpoints holds. One query."""
    clocks = {name: getattr(task, name) for name in TASK_FIELDS}
    places = {task.version, *clocks.values()} - {None}
    opened = payloads.opened(thread, state, sorted(places))
    found = {}
    for name, clock in clocks.items():
        content = None if clock is None else opened[clock].content
        found[name] = None if content is None else content.get(name)
    begun = found.pop("started_at")
    return TaskView(
        **found,
        status=task.status,
        started_at=datetime.fromisoformat(begun) if begun else None,
        updated_at=opened[task.version].at,
        version=state.seq_of(task.version),
    )


def get_texts(
    thread: Thread,
    state: ThreadState,
    task: Task,
    fields: Iterable[TaskField] = TASK_FIELDS,
) -> dict[TaskField, bytes]:
    """Those of these fields that hold something, each as JSON text. One query.

    Raises ContentErasedError for one that is gone.
    """
    all_clocks = {name: getattr(task, name) for name in fields}
    clocks = {name: clock for name, clock in all_clocks.items() if clock is not None}
    opened = payloads.opened(thread, state, sorted({*clocks.values()}))
    found: dict[TaskField, bytes] = {}
    for name, clock in clocks.items():
        content = opened[clock].content
        if content is None:
            raise ContentErasedError
        if content.get(name) is not None:
            found[name] = strict_json.as_sent(content[name])
    return found


def _differing(
    thread: Thread, state: ThreadState, before: Task | None, after: Task | None
) -> Found:
    """Names of fields that differ; of what was set anew, if it is another.

    `task` when only one side has one. Two queries when a field was set.
    """
    if before is None or after is None:
        return {"task": () if before == after else ("task",)}
    pairs = zip(before._fields, before, after, strict=True)
    found = [n for n, old, new in pairs if old != new and n != "version"]
    if {*found} - {"status"}:
        one, other = (view_of(thread, state, each) for each in (before, after))
        found = [n for n in found if _text(one, n) != _text(other, n)]
    return {"task": tuple(found)}


def _text(task: TaskView, name: str) -> object:
    """A field, as a text where it is JSON: to Python `true` equals 1."""
    value = getattr(task, name)
    return strict_json.canonical(value) if isinstance(value, Mapping) else value


def _texts(
    thread: Thread,
    state: ThreadState,
    before: Task | None,
    after: Task | None,
    found: Found,
) -> Found:
    if not found["task"]:
        return {"task": ()}
    one, other = (
        view_of(thread, state, each) if each else None for each in (before, after)
    )
    fields = ("status", *TASK_FIELDS)
    pairs = [(n, getattr(one, n, None), getattr(other, n, None)) for n in fields]
    return {
        "task": tuple(
            FieldDifference(name=name, before=old, after=new)
            for name, old, new in pairs
            if old != new
        )
    }


def _records(thread: Thread, state: ThreadState, now: datetime) -> Iterator[TaskRecord]:
    task = TASK.value(state)
    if task is None:
        return
    view = view_of(thread, state, task)
    yield record_of(TaskRecord, view, thread=thread.id)


STATES = StateFile(
    path="state/tasks.jsonl",
    record=TaskRecord,
    lines=_records,
    needs=frozenset({"task.set"}),
)
VIEW = SliceView(
    slice=TASK,
    fields={"task": list[str]},
    example={"task": ["status", "current_step"]},
    names=_differing,
    texts=_texts,
)
