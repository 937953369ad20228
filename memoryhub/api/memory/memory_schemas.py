"""Working memory on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import MAX_BATCH, In, Out, example, whole
from memoryhub.api.document.samples import PLACE, UNTIL, measured
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.memory.checkpoint_schemas import CHECKPOINT, CheckpointOut
from memoryhub.api.memory.key_schemas import KEY_VALUE, KeyValueOut
from memoryhub.api.memory.nouns import NEWEST
from memoryhub.api.memory.task_schemas import TASK, TaskOut
from memoryhub.kernel.memory.nouns import measured_fields

#: As they stand in the counts of a thread.
STATS = {
    "keys": 2,
    "key_bytes": 28,
    "expiring": 1,
    "next_expiry_at": UNTIL,
    "default_ttl_seconds": None,
    **measured("stats"),
    **{name: value for each in NEWEST for name, value in each.figures.items()},
    "checkpoints": 1,
    "automatic": 0,
}


class EmptyIn(In):
    """Nothing: the path says it all."""

    model_config = example({})


class ExistedOut(Out):
    model_config = example({"existed": True, "seq": 45})

    existed: bool
    seq: int | None = Field(description="Of the deletion; null if there was nothing.")


class ClearedOut(Out):
    model_config = example({"cleared": 2, "seq": 46})

    cleared: int
    seq: int = Field(description="The thread's head.")


class MemoryStatsOut(Out):
    keys: int
    key_bytes: int
    expiring: int
    next_expiry_at: datetime | None
    default_ttl_seconds: int | None
    __annotations__ |= measured_fields("stats")
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
    __annotations__ |= {
        each.name: Annotated[
            Many, Field(50, description=f"How many of the newest {each.name}.")
        ]
        for each in NEWEST
    }


class MemoryOut(Out):
    """All of it at one instant: what a turn starts with."""

    model_config = example(
        {
            **PLACE,
            "seq": 44,
            "task": TASK,
            "keys": [KEY_VALUE],
            **{each.name: [each.example] for each in NEWEST},
            "checkpoints": [CHECKPOINT],
            "stats": STATS,
        }
    )

    thread: str
    thread_id: UUID
    seq: int
    task: TaskOut | None
    keys: list[KeyValueOut]
    __annotations__ |= {each.name: each.kind for each in NEWEST}
    checkpoints: list[CheckpointOut]
    stats: MemoryStatsOut
