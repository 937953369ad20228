from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Out,
    ThreadName,
    Time,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.memory_fields import (
    ExistedOut,
    build_size_check,
    build_text_schema,
    parse_expected,
)
from memoryhub.api.document.samples import AT
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.errors import ProjectFullError, SeqUnknownError, TaskNotFoundError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.tasks import (
    MAX_DATA_BYTES,
    MAX_DESCRIPTION_BYTES,
    MAX_STEP,
    TASK_FIELDS,
    ClearTask,
    SetTask,
    TaskField,
    TaskStatus,
    UpdateTask,
)
from memoryhub.kernel.text import strict_json
from memoryhub.queries.memory import tasks
from memoryhub.queries.threads.readers import read
from memoryhub.services.memory import working_memory


def _check_percent(number: float) -> float:
    if not isfinite(number) or not 0 <= number <= 100:
        raise FieldRefusedError("value")
    return number


def _check_data(data: dict[str, Any]) -> dict[str, Any]:
    if len(strict_json.dump_canonical(data)) > MAX_DATA_BYTES:
        raise FieldRefusedError("value", allowed="an object of at most 64 KiB of JSON")
    return data


Step = Annotated[int, build_range_check(0, MAX_STEP), build_range_schema(0, MAX_STEP)]
Percent = Annotated[
    float,
    AfterValidator(_check_percent),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 100}),
]
Description = Annotated[
    str,
    build_size_check(MAX_DESCRIPTION_BYTES),
    build_text_schema(MAX_DESCRIPTION_BYTES),
]
TaskData = Annotated[dict[str, Any], AfterValidator(_check_data)]

_TASK_IN = {
    "status": "running",
    "description": "Rebook the customer to Saturday.",
    "current_step": 3,
    "progress_percent": 60.0,
    "data": {"flight": "LH 432"},
}
TASK = {**_TASK_IN, "started_at": AT, "updated_at": AT, "version": 42}


class TaskFieldsIn(In):
    description: Description | None = None
    current_step: Step | None = None
    progress_percent: Percent | None = None
    started_at: Time | None = None
    data: TaskData | None = None


class TaskIn(TaskFieldsIn):
    """The whole task; absent fields take their default."""

    model_config = build_example(_TASK_IN)

    status: TaskStatus = "pending"
    current_step: Step | None = 0
    progress_percent: Percent | None = 0.0


def _drop_default(schema: dict[str, Any]) -> None:
    """Drop the default from the schema: an absent field stays unchanged."""
    del schema["default"]


class TaskPatch(TaskFieldsIn):
    """Changed fields; absent stays, null clears, empty is a heartbeat."""

    model_config = build_example({"current_step": 4, "progress_percent": 80.0})

    status: TaskStatus = Field("pending", json_schema_extra=_drop_default)


class TaskOut(Out):
    model_config = build_example(TASK)

    status: str
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: datetime | None
    updated_at: datetime
    version: int
    data: dict[str, Any] | None


router = StrictRouter(tags=["task"])


@router.route(
    "GET",
    "/threads/{thread}/task",
    needs=auth.READ,
    out=TaskOut,
    refusals=[*GONE, SeqUnknownError, TaskNotFoundError],
)
def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """Read the task, now or as of an event."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    task = tasks.get_task(thread_row, seq=get_seq(thread_row, query))
    return render_answer(TaskOut.model_validate(task))


@router.route(
    "PUT",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=TaskOut,
    refusals=[*CONDITIONAL, ProjectFullError],
)
async def put(
    request: HttpRequest, thread: Path[ThreadName], body: TaskIn
) -> HttpResponse:
    """Set the whole task; absent fields take their default.

    Makes the thread if the name is new.
    """
    fields = _build_fields(body)
    if body.started_at is None and "started_at" in body.model_fields_set:
        fields["started_at"] = b"null"
    command = SetTask(
        status=body.status, fields=fields, expected=parse_expected(request)
    )
    receipt = await working_memory.submit_command(
        agent=auth.get_caller(request),
        thread=thread,
        command=command,
        texts=[*fields.values()],
        born=True,
    )
    return await read(_render_task, receipt)


@router.route(
    "PATCH",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=TaskOut,
    refusals=[*CONDITIONAL, TaskNotFoundError],
)
async def patch(
    request: HttpRequest, thread: Path[ThreadName], body: TaskPatch
) -> HttpResponse:
    """Change the sent fields; null clears. Concurrent patches merge by field.

    An empty body is a heartbeat of the task.
    """
    sent, fields = body.model_fields_set, _build_fields(body)
    command = UpdateTask(
        status=body.status if "status" in sent else None,
        fields=fields,
        cleared=tuple(n for n in TASK_FIELDS if n in sent and n not in fields),
        expected=parse_expected(request),
    )
    receipt = await working_memory.submit_command(
        agent=auth.get_caller(request),
        thread=thread,
        command=command,
        texts=[*fields.values()],
    )
    return await read(_render_task, receipt)


@router.route(
    "DELETE",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=ExistedOut,
    refusals=CONDITIONAL,
)
async def delete(request: HttpRequest, thread: Path[ThreadName]) -> HttpResponse:
    """Remove the task and nothing else."""
    receipt = await working_memory.submit_command(
        agent=auth.get_caller(request),
        thread=thread,
        command=ClearTask(expected=parse_expected(request)),
    )
    existed = bool(receipt.events)
    return render_answer(
        ExistedOut(existed=existed, seq=receipt.seq if existed else None)
    )


def _build_fields(body: TaskIn | TaskPatch) -> dict[TaskField, bytes]:
    """Build the sealed fields of a task, by name."""
    plain = {name: getattr(body, name) for name in TASK_FIELDS}
    if body.started_at is not None:
        plain["started_at"] = body.started_at.isoformat()
    return {
        name: strict_json.dump_stored(value)
        for name, value in plain.items()
        if value is not None
    }


def _render_task(receipt: OrderReceipt) -> HttpResponse:
    return render_answer(TaskOut.model_validate(tasks.get_task_after(receipt)))
