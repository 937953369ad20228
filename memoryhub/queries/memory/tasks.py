"""The task of a thread, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.errors import ContentErasedError, TaskNotFoundError
from memoryhub.journal import OrderReceipt, texts
from memoryhub.kernel.memory.tasks import TASK, TASK_FIELDS, Task, TaskField
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.queries.memory.slice_views import SliceDifferences, SliceView
from memoryhub.queries.replay.state_files import StateFile, build_record
from memoryhub.queries.replay.states import load_state


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """The task's state with its fields."""

    status: str
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: datetime | None
    updated_at: datetime
    #: The number of the event that last set or updated the task; ≤ 0 if inherited.
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
    """A field whose value differs, or that is on one side only."""

    name: str
    before: Any
    after: Any


def get_task(thread: Thread, *, seq: int | None = None) -> TaskView:
    """Return the task. `thread` comes with its subject.

    At most two queries once the state is cached. Raises TaskNotFoundError.
    """
    state = load_state(thread, seq)
    task = TASK.get_current(state)
    if task is None:
        raise TaskNotFoundError
    return build_view(thread, state, task)


def get_task_after(receipt: OrderReceipt) -> TaskView:
    """Return the task after a command. Two queries."""
    thread = Thread.objects.select_related("subject").get(id=receipt.thread)
    state = receipt.state or load_state(thread, receipt.seq)
    task = TASK.get_current(state)
    if task is None:
        raise TaskNotFoundError
    return build_view(thread, state, task)


def build_view(thread: Thread, state: ThreadState, task: Task) -> TaskView:
    """Build the view of a task that the state or a checkpoint holds. One query."""
    clocks = {name: getattr(task, name) for name in TASK_FIELDS}
    places = {task.version, *clocks.values()} - {None}
    opened = texts.open_events(thread, state, sorted(places))
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
        version=state.to_seq(task.version),
    )


def get_texts(
    thread: Thread,
    state: ThreadState,
    task: Task,
    fields: Iterable[TaskField] = TASK_FIELDS,
) -> dict[TaskField, bytes]:
    """Return each of these fields that has a value, as JSON text. One query.

    Raises ContentErasedError for an erased field.
    """
    all_clocks = {name: getattr(task, name) for name in fields}
    clocks = {name: clock for name, clock in all_clocks.items() if clock is not None}
    opened = texts.open_events(thread, state, sorted({*clocks.values()}))
    found: dict[TaskField, bytes] = {}
    for name, clock in clocks.items():
        content = opened[clock].content
        if content is None:
            raise ContentErasedError
        if content.get(name) is not None:
            found[name] = strict_json.dump_stored(content[name])
    return found


def _list_differences(
    thread: Thread, state: ThreadState, before: Task | None, after: Task | None
) -> SliceDifferences:
    """List names of fields that differ; a field set again to an equal value does not.

    `task` when only one side has a task. Two queries when a field was set.
    """
    if before is None or after is None:
        return {"task": () if before == after else ("task",)}
    pairs = zip(before._fields, before, after, strict=True)
    found = [n for n, old, new in pairs if old != new and n != "version"]
    if {*found} - {"status"}:
        one, other = (build_view(thread, state, each) for each in (before, after))
        found = [n for n in found if _get_text(one, n) != _get_text(other, n)]
    return {"task": tuple(found)}


def _get_text(task: TaskView, name: str) -> object:
    """Return a field, JSON as canonical text: in Python `True == 1`."""
    value = getattr(task, name)
    return strict_json.dump_canonical(value) if isinstance(value, Mapping) else value


def _open_differences(
    thread: Thread,
    state: ThreadState,
    before: Task | None,
    after: Task | None,
    found: SliceDifferences,
) -> SliceDifferences:
    if not found["task"]:
        return {"task": ()}
    one, other = (
        build_view(thread, state, each) if each else None for each in (before, after)
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


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[TaskRecord]:
    task = TASK.get_current(state)
    if task is None:
        return
    view = build_view(thread, state, task)
    yield build_record(TaskRecord, view, thread=thread.id)


STATES = StateFile(
    path="state/tasks.jsonl",
    record=TaskRecord,
    lines=_iter_records,
    needs=frozenset({"task.set"}),
)
VIEW = SliceView(
    slice=TASK,
    fields={"task": list[str]},
    example={"task": ["status", "current_step"]},
    names=_list_differences,
    texts=_open_differences,
)
