"""The task on the wire."""

from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    In,
    Out,
    RefusedError,
    Time,
    counted,
    example,
    within,
)
from memoryhub.api.document.memory_fields import sized, text_schema
from memoryhub.api.document.samples import AT
from memoryhub.kernel.memory.tasks import (
    MAX_DATA_BYTES,
    MAX_DESCRIPTION_BYTES,
    MAX_STEP,
    TaskStatus,
)
from memoryhub.kernel.text import strict_json


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
