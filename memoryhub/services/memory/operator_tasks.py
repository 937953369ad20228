"""Operators' commands for the task, with the operator as actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from memoryhub.errors import InvalidError, StaleError, TaskNotFoundError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.tasks import (
    MAX_DATA_BYTES,
    MAX_DESCRIPTION_BYTES,
    MAX_STEP,
    TASK_FIELDS,
    TASK_STATUSES,
    ClearTask,
    SetTask,
    TaskField,
    TaskStatus,
    UpdateTask,
)
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.times import YEARS
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import tasks
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.services.memory import working_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValues:
    """Wanted fields of the task; None for a field that is to be empty."""

    status: TaskStatus
    description: str | None = None
    current_step: int | None = None
    progress_percent: float | None = None
    started_at: datetime | None = None
    data: Mapping[str, Any] | None = None


def set_task(
    thread: Thread, wanted: TaskValues, *, version: int | None, actor: str
) -> OrderReceipt | None:
    """Set the task's fields, if the task is at that version; None: if there is none.

    Emits task.set for a new task; else task.updated with the changed fields only, so
    that untouched fields stay to the last digit. Returns None if nothing changes.
    `thread` comes with its subject. Raises InvalidError with the field,
    JsonRefusedError, StaleError.
    """
    _require_fitting(wanted)
    command: SetTask | UpdateTask | None
    if version is None:
        texts = _to_json_texts(wanted)
        absent = Expected(absent=True)
        command = SetTask(status=wanted.status, fields=texts, expected=absent)
    else:
        command = _build_update(_require_version(thread, version), wanted)
    if command is None:
        return None
    return working_memory.perform_command(thread, command, actor=actor)


def clear_task(thread: Thread, *, version: int, actor: str) -> OrderReceipt:
    """Remove the task. Emits task.cleared. Raises StaleError."""
    command = ClearTask(expected=Expected(version=version))
    return working_memory.perform_command(thread, command, actor=actor)


def _require_version(thread: Thread, version: int) -> TaskView:
    """Get the task, if at that version. Raises StaleError."""
    try:
        found = tasks.get_task(thread)
    except TaskNotFoundError:
        raise StaleError from None
    if found.version != version:
        raise StaleError(version=found.version)
    return found


def _build_update(seen: TaskView, wanted: TaskValues) -> UpdateTask | None:
    """Build the command of the changed fields; None if nothing changes."""
    old, new = _to_json_texts(seen), _to_json_texts(wanted)
    fields = {name: text for name, text in new.items() if old.get(name) != text}
    cleared = tuple(n for n in TASK_FIELDS if n in old and n not in new)
    turned = wanted.status != seen.status
    if not (fields or cleared or turned):
        return None
    return UpdateTask(
        status=wanted.status if turned else None,
        fields=fields,
        cleared=cleared,
        expected=Expected(version=seen.version),
    )


def _to_json_texts(task: TaskView | TaskValues) -> dict[TaskField, bytes]:
    """Convert each non-empty field to JSON text."""
    plain = {name: getattr(task, name) for name in TASK_FIELDS}
    if task.started_at is not None:
        plain["started_at"] = task.started_at.astimezone(UTC).isoformat()
    return {
        name: strict_json.dump_stored(value)
        for name, value in plain.items()
        if value is not None
    }


def _require_fitting(wanted: TaskValues) -> None:
    """Raise InvalidError with the first field whose value is out of bounds."""
    step, percent = wanted.current_step, wanted.progress_percent
    description, data = wanted.description or "", wanted.data or {}
    strict_json.check([description, data], strict_json.CONTENT)
    fits = {
        "status": wanted.status in TASK_STATUSES,
        "description": len(description.encode()) <= MAX_DESCRIPTION_BYTES,
        "current_step": step is None or 0 <= step <= MAX_STEP,
        "progress_percent": percent is None
        or (isfinite(percent) and 0 <= percent <= 100),
        "started_at": wanted.started_at is None or wanted.started_at.year in YEARS,
        "data": len(strict_json.dump_canonical(data)) <= MAX_DATA_BYTES,
    }
    for name, good in fits.items():
        if not good:
            raise InvalidError(loc=name)
