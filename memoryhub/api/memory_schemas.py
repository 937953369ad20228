"""Working memory on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from memoryhub.api.checkpoint_schemas import CheckpointOut
from memoryhub.api.fields import MAX_BATCH, In, Out, RefusedError, Time, whole
from memoryhub.api.memory_fields import (
    Description,
    ExpiringIn,
    Glob,
    KeyName,
    Percent,
    Step,
    TaskData,
    one_expiry,
)
from memoryhub.api.note_schemas import NoteOut
from memoryhub.api.schemas import AsOf, Part
from memoryhub.kernel.tasks import TaskStatus
from memoryhub.queries.keys import KeyLine
from memoryhub.queries.tasks import TaskView

VERSION = "Of the key, for If-Match: a seq; 0 or less of what a fork inherits."


class KeyIn(ExpiringIn):
    value: Any = Field(description="Any JSON; null is a value.")

    _one = model_validator(mode="before")(one_expiry)


class RetimeIn(ExpiringIn):
    """Another expiry. One of the two must be sent."""

    _one = model_validator(mode="before")(one_expiry)

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if not self.model_fields_set:
            says = "that or `expires_at` must be sent; null is never"
            raise RefusedError("missing", allowed=says, loc=("ttl_seconds",))
        return self


class KeyChangeIn(ExpiringIn):
    """A set, which needs a `value`, or a delete, which takes none."""

    op: Literal["set", "delete"]
    key: KeyName
    value: Any = None
    if_match: int | None = Field(None, description=VERSION)
    if_none_match: Literal["*"] | None = None

    _one = model_validator(mode="before")(one_expiry)

    @model_validator(mode="after")
    def whole(self) -> Self:
        sent = self.model_fields_set
        if self.op == "set" and "value" not in sent:
            raise RefusedError("missing", allowed="a set needs it", loc=("value",))
        for name in ("value", "ttl_seconds", "expires_at"):
            if self.op == "delete" and name in sent:
                says = "a delete takes none"
                raise RefusedError("extra_field", allowed=says, loc=(name,))
        if self.if_match is not None and self.if_none_match is not None:
            says = "null beside `if_match`"
            raise RefusedError("value", allowed=says, loc=("if_none_match",))
        return self


def _distinct(items: list[KeyChangeIn]) -> list[KeyChangeIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise RefusedError("batch_size")
    seen: set[str] = set()
    for n, item in enumerate(items):
        if item.key in seen:
            raise RefusedError("value", allowed="each key once", loc=(n, "key"))
        seen.add(item.key)
    return items


class KeyChangesIn(In):
    items: Annotated[
        list[KeyChangeIn],
        AfterValidator(_distinct),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class EmptyIn(In):
    """Nothing: the path says it all."""


class KeysQuery(AsOf, Part):
    glob: Glob = Field("*", description="`*`, `?`, `[abc]`, `[a-c]`, `[!a]`.")
    values: Literal["true", "false"] = "false"
    sort: Literal["name", "expiry", "bytes"] = "name"


class SetOut(Out):
    thread: str
    thread_id: UUID
    seq: int
    key: str
    expires_at: datetime | None


class KeyOut(Out):
    key: str
    seq: int = Field(description=VERSION)
    set_at: datetime
    expires_at: datetime | None
    bytes: int

    @classmethod
    def of(cls, line: KeyLine) -> KeyOut:
        return cls(**_told(line))


class KeyValueOut(KeyOut):
    value: Any
    erased: bool = Field(
        description="The value is gone for good, as of the past; it was not null."
    )

    @classmethod
    def of(cls, line: KeyLine) -> KeyValueOut:
        return cls(**_told(line), value=line.value, erased=line.erased)


def _told(line: KeyLine) -> dict[str, Any]:
    return {
        "key": line.name,
        "seq": line.version,
        "set_at": line.set_at,
        "expires_at": line.expires_at,
        "bytes": line.bytes,
    }


class KeysOut(Out):
    items: list[KeyValueOut | KeyOut]
    next: str | None


class ExistedOut(Out):
    existed: bool
    seq: int | None = Field(description="Of the deletion; null if there was nothing.")


class ChangedOut(Out):
    key: str
    seq: int | None
    expires_at: datetime | None = None
    existed: bool | None = Field(None, description="Of a delete: whether it was there.")


class ChangesOut(Out):
    thread: str
    thread_id: UUID
    items: list[ChangedOut]


class ClearedOut(Out):
    cleared: int
    seq: int = Field(description="The thread's head.")


class TaskFieldsIn(In):
    description: Description | None = None
    current_step: Step | None = None
    progress_percent: Percent | None = None
    started_at: Time | None = None
    data: TaskData | None = None


class TaskIn(TaskFieldsIn):
    """The whole of it; what is absent takes its default."""

    status: TaskStatus = "pending"
    current_step: Step | None = 0
    progress_percent: Percent | None = 0.0


def _optional(schema: dict[str, Any]) -> None:
    """What is absent stays as it is, so there is no default to tell of."""
    del schema["default"]


class TaskPatch(TaskFieldsIn):
    """What changes; absent stays, null clears. None of it is a heartbeat."""

    status: TaskStatus = Field("pending", json_schema_extra=_optional)


class TaskOut(Out):
    status: str
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: datetime | None
    updated_at: datetime
    version: int
    data: dict[str, Any] | None

    @classmethod
    def of(cls, task: TaskView) -> TaskOut:
        told = {name: getattr(task, name) for name in task.__slots__}
        return cls(**told)


class MemoryStatsOut(Out):
    keys: int
    key_bytes: int
    expiring: int
    next_expiry_at: datetime | None
    default_ttl_seconds: int | None
    notes: int
    note_bytes: int
    has_task: bool
    checkpoints: int
    automatic: int


Many = Annotated[
    int,
    BeforeValidator(whole("limit", low=0, high=MAX_BATCH)),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_BATCH}),
]


class MemoryQuery(AsOf):
    keys: Many = Field(
        200, description="How many keys, by name; fewer beyond 4 MiB of values."
    )
    notes: Many = Field(50, description="How many of the newest notes.")


class MemoryOut(Out):
    """All of it at one instant: what a turn starts with."""

    thread: str
    thread_id: UUID
    seq: int
    task: TaskOut | None
    keys: list[KeyValueOut]
    notes: list[NoteOut]
    checkpoints: list[CheckpointOut]
    stats: MemoryStatsOut
