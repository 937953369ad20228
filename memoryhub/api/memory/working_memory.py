from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import BeforeValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    MAX_BATCH,
    Out,
    ThreadName,
    build_example,
    build_integer_reader,
)
from memoryhub.api.document.samples import PLACE, UNTIL, build_measures
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.api.memory.checkpoints import CHECKPOINT, CheckpointOut
from memoryhub.api.memory.keys import KEY_VALUE, KeyValueOut
from memoryhub.api.memory.nouns import NEWEST
from memoryhub.api.memory.tasks import TASK, TaskOut
from memoryhub.errors import SeqUnknownError
from memoryhub.kernel.memory.nouns import build_measured_fields
from memoryhub.queries.memory.working_memory import get_memory

#: Example of the working-memory counts of a thread.
STATS = {
    "keys": 2,
    "key_bytes": 28,
    "expiring": 1,
    "next_expiry_at": UNTIL,
    "default_ttl_seconds": None,
    **build_measures("stats"),
    **{name: value for each in NEWEST for name, value in each.figures.items()},
    "checkpoints": 1,
    "automatic": 0,
}


class MemoryStatsOut(Out):
    keys: int
    key_bytes: int
    expiring: int
    next_expiry_at: datetime | None
    default_ttl_seconds: int | None
    __annotations__ |= build_measured_fields("stats")
    checkpoints: int
    automatic: int


Many = Annotated[
    int,
    BeforeValidator(build_integer_reader("limit", low=0, high=MAX_BATCH)),
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
    """Working memory at one instant, for a turn's start."""

    model_config = build_example(
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


router = StrictRouter(tags=["working memory"])


@router.route(
    "GET",
    "/threads/{thread}/working-memory",
    needs=auth.READ,
    out=MemoryOut,
    refusals=[*GONE, SeqUnknownError],
)
def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[MemoryQuery]
) -> HttpResponse:
    """Read task, keys, newest notes and checkpoints at one instant."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = get_memory(
        thread_row,
        max_keys=query.keys,
        newest={each.name: getattr(query, each.name) for each in NEWEST},
        seq=get_seq(thread_row, query),
    )
    out = MemoryOut.from_record(
        found,
        thread=thread,
        thread_id=thread_row.id,
        checkpoints=[CheckpointOut.from_line(line) for line in found.checkpoints],
        stats=MemoryStatsOut(**found.stats.to_dict()),
        **found.newest,
    )
    return render_answer(out)
