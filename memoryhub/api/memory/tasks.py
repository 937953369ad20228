from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    In,
    Out,
    RefusedError,
    ThreadName,
    Time,
    counted,
    example,
    within,
)
from memoryhub.api.document.memory_fields import (
    ExistedOut,
    expected,
    sized,
    text_schema,
)
from memoryhub.api.document.samples import AT
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.errors import ProjectFullError, SeqUnknownError, TaskNotFoundError
from memoryhub.journal import Receipt
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
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory


def _percent(number: float) -> float:
    if not isfinite(number) or not 0 <= number <= 100:
        raise RefusedError("value")
    return number


def _data(data: dict[str, Any]) -> dict[str, Any]:
    if len(strict_json.canonical(data)) > MAX_DATA_BYTES:
        raise RefusedError("value", allowed="an object of at most 64 KiB of JSON")
    return data


Step = Annotated[int, within(0, MAX_STEP), counted(0, MAX_STEP)]
Percent = Annotated[
    float,
    AfterValidator(_percent),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 100}),
]
Description = Annotated[
    str, sized(MAX_DESCRIPTION_BYTES), text_schema(MAX_DESCRIPTION_BYTES)
]
TaskData = Annotated[dict[str, Any], AfterValidator(_data)]

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
    """The whole of it; what is absent takes its default."""

    model_config = example(_TASK_IN)

    status: TaskStatus = "pending"
    current_step: Step | None = 0
    progress_percent: Percent | None = 0.0


def _optional(schema: dict[str, Any]) -> None:
    """What is absent stays as it is, so there is no default to tell of."""
    del schema["default"]


class TaskPatch(TaskFieldsIn):
    """What changes; absent stays, null clears. None of it is a heartbeat."""

    model_config = example({"current_step": 4, "progress_percent": 80.0})

    status: TaskStatus = Field("pending", json_schema_extra=_optional)


class TaskOut(Out):
    model_config = example(TASK)

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
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """The state of the task, now or as of an event."""
    return await read(_get, auth.caller(request), thread, query)


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
    """Set the whole of it; what is absent takes its default.

    Makes the thread if the name is new.
    """
    fields = _fields(body)
    if body.started_at is None and "started_at" in body.model_fields_set:
        fields["started_at"] = b"null"
    command = SetTask(status=body.status, fields=fields, expected=expected(request))
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=command,
        texts=[*fields.values()],
        born=True,
    )
    return await read(_written, receipt)


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
    """Change what is sent; null clears. Two at once never lose each other's fields.

    Sent with nothing in it, it says that the task is alive.
    """
    sent, fields = body.model_fields_set, _fields(body)
    command = UpdateTask(
        status=body.status if "status" in sent else None,
        fields=fields,
        cleared=tuple(n for n in TASK_FIELDS if n in sent and n not in fields),
        expected=expected(request),
    )
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=command,
        texts=[*fields.values()],
    )
    return await read(_written, receipt)


@router.route(
    "DELETE",
    "/threads/{thread}/task",
    needs=auth.WRITE,
    out=ExistedOut,
    refusals=CONDITIONAL,
)
async def delete(request: HttpRequest, thread: Path[ThreadName]) -> HttpResponse:
    """Remove the task; keys, notes and checkpoints stay."""
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=ClearTask(expected=expected(request)),
    )
    existed = bool(receipt.events)
    return rendered(ExistedOut(existed=existed, seq=receipt.seq if existed else None))


def _fields(body: TaskIn | TaskPatch) -> dict[TaskField, bytes]:
    """What is sealed of it, by field."""
    plain = {name: getattr(body, name) for name in TASK_FIELDS}
    if body.started_at is not None:
        plain["started_at"] = body.started_at.isoformat()
    return {
        name: strict_json.as_sent(value)
        for name, value in plain.items()
        if value is not None
    }


def _get(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread = find_thread(agent, name)
    task = tasks.get_task(thread, seq=seq_of(thread, moment))
    return rendered(TaskOut.model_validate(task))


def _written(receipt: Receipt) -> HttpResponse:
    return rendered(TaskOut.model_validate(tasks.after(receipt)))
