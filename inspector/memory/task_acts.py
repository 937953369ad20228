"""Edits of the task by an operator: a form of all fields, and a button to clear."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.http.request import QueryDict
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.drawing import chat
from inspector.drawing.hidden import escape_hidden
from inspector.lists import visits
from inspector.memory import editing, typed_json
from inspector.web import refusals
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal, StaleError, TaskNotFoundError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.tasks import MAX_STEP, TASK_STATUSES, TaskStatus
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import tasks
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.services.memory import operator_tasks
from memoryhub.services.memory.operator_tasks import TaskValues

_TEXTS: refusals.Texts = {
    StaleError: "The task has changed since you looked. Here it is as it is now, "
    "beside what you typed.",
    "status": "Choose a status from the list.",
    "description": "A description has at most 4 KiB.",
    "current_step": f"A step is a whole number from 0 to {MAX_STEP:,}.",
    "progress_percent": "Progress is a number from 0 to 100.",
    "started_at": "A time is wanted, as 2026-01-31T12:00:00, in UTC.",
    "data": "Data is a JSON object of at most 64 KiB.",
}
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,12})?", re.ASCII)
#: Characters read of a sent field; the limits of the task are smaller.
_LONGEST = 1_048_576
_SECONDS = "%Y-%m-%dT%H:%M:%S"
#: Value of the button that clears the task.
_CLEAR = "clear"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForm:
    """Fields of the task as the operator typed them; an empty field means no value."""

    status: str = "pending"
    description: str = ""
    current_step: str = "0"
    progress_percent: str = "0"
    started_at: str = ""
    data: str = ""

    @classmethod
    def from_task(cls, task: TaskView) -> TaskForm:
        percent, begun = task.progress_percent, task.started_at
        return cls(
            status=task.status,
            description=task.description or "",
            current_step="" if task.current_step is None else str(task.current_step),
            progress_percent="" if percent is None else f"{percent:g}",
            started_at=begun.astimezone(UTC).strftime(_SECONDS) if begun else "",
            data=""
            if task.data is None
            else escape_hidden(chat.render_json(task.data)),
        )

    @classmethod
    def from_query(cls, sent: QueryDict) -> TaskForm:
        texts = {name: sent.get(name, "")[:_LONGEST] for name in cls.__slots__}
        return cls(**{name: _normalize_line_ends(text) for name, text in texts.items()})

    def to_values(self, seen: TaskView | None) -> TaskValues:
        """Parse the fields; a field left as shown keeps the task's exact value.

        Raises InvalidError with the field, JsonRefusedError.
        """
        shown = asdict(TaskForm.from_task(seen)) if seen else {}
        wanted: dict[str, Any] = {}
        for name, read in _READERS.items():
            text = getattr(self, name)
            same = name in shown and _normalize_line_ends(shown[name]) == text
            wanted[name] = getattr(seen, name) if same else read(text)
        return TaskValues(status=cast("TaskStatus", self.status), **wanted)


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def edit(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Edit or clear the task, if the task is still as the form showed it."""
    visitor, row = editing.require_editor(request, project, thread)
    if request.method != "POST":
        seen = _find_task(row)
        form = TaskForm.from_task(seen) if seen else TaskForm()
        return _render_form(request, visitor, row, form=form, seen=seen)
    form = TaskForm.from_query(request.POST)
    try:
        receipt = _perform_edit(row, form, request.POST, actor=visitor.actor)
    except Refusal as problem:
        # The thread's head has moved by now.
        _, row = editing.require_editor(request, project, thread)
        seen = _find_task(row)
        if request.POST.get("act") == _CLEAR:
            form = TaskForm.from_task(seen) if seen else TaskForm()
        return _render_form(
            request, visitor, row, form=form, seen=seen, problem=problem
        )
    return editing.redirect_to_saved("task", receipt, project=project, thread=thread)


def _perform_edit(
    row: Thread, form: TaskForm, sent: QueryDict, *, actor: str
) -> OrderReceipt | None:
    version = editing.parse_version(sent)
    if sent.get("act") == _CLEAR:
        if version is None:
            return None
        return operator_tasks.clear_task(row, version=version, actor=actor)
    seen = _find_task(row)
    if (seen and seen.version) != version:
        raise StaleError
    wanted = form.to_values(seen)
    return operator_tasks.set_task(row, wanted, version=version, actor=actor)


def _find_task(row: Thread) -> TaskView | None:
    try:
        return tasks.get_task(row)
    except TaskNotFoundError:
        return None


def _render_form(
    request: HttpRequest,
    visitor: Visitor,
    row: Thread,
    *,
    form: TaskForm,
    seen: TaskView | None,
    problem: Refusal | None = None,
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "task": seen,
        "version": seen.version if seen else editing.NONE,
        "statuses": TASK_STATUSES,
        "most": MAX_STEP,
        # Somebody else wrote the task meanwhile: the page shows the present values.
        "moved": isinstance(problem, StaleError),
        "problem": _describe_error(problem, form),
    }
    return visits.render_thread_page(
        request,
        "inspector/memory/task/edit.html",
        visitor,
        row,
        context,
        status=refusals.get_status(problem),
    )


def _describe_error(problem: Refusal | None, form: TaskForm) -> str:
    if isinstance(problem, JsonRefusedError):
        return f"Data: {typed_json.describe_error(problem, form.data)}"
    return refusals.get_error_text(problem, _TEXTS, numbers=True)


def _normalize_line_ends(text: str) -> str:
    """Convert a browser's CRLF line ends to LF."""
    return text.replace("\r\n", "\n")


def _parse_step(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidError(loc="current_step")
    return int(text)


def _parse_percent(text: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    if not _PERCENT.fullmatch(text):
        raise InvalidError(loc="progress_percent")
    return float(text)


def _parse_time(text: str) -> datetime | None:
    """Parse a time from a browser's field, in UTC. Raises InvalidError."""
    if not text.strip():
        return None
    try:
        at = parse_datetime(text.strip())
        if at is not None:
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # no time, or one that UTC has no year for
    raise InvalidError(loc="started_at")


def _parse_data(text: str) -> dict[str, Any] | None:
    if not text.strip():
        return None
    value = strict_json.parse(text.encode(errors="replace"), strict_json.CONTENT)
    if not isinstance(value, dict):
        raise InvalidError(loc="data")
    return value


_READERS: dict[str, Callable[[str], object]] = {
    "description": lambda text: text or None,
    "current_step": _parse_step,
    "progress_percent": _parse_percent,
    "started_at": _parse_time,
    "data": _parse_data,
}
