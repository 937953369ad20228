"""Threads on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from memoryhub.api.document.config_schemas import ConfigOut
from memoryhub.api.document.fields import (
    BodyLimit,
    In,
    Label,
    Name,
    Out,
    RefusedError,
    ThreadName,
    Time,
    UserId,
    counted,
    example,
    within,
)
from memoryhub.api.document.memory_fields import CheckpointRef
from memoryhub.api.document.samples import THREAD, THREAD_ID
from memoryhub.api.document.schemas import Described, Pagination, ScopeOut, Status
from memoryhub.kernel.state.events import CloseReason, Limits
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.threads import ThreadFilter, ThreadLine

_LABEL = "label."
Origin = Annotated[int, within(1, MAX_INTEGER), counted(1, MAX_INTEGER)]
OriginTurn = Annotated[int, within(0, MAX_INTEGER), counted(0, MAX_INTEGER)]


_DESCRIBED = {
    "scope": {"agent_type": "booking", "session": "s-204"},
    "labels": {"channel": "web", "trial": 1},
    "config": {"max_slots": 50000},
}


class ThreadIn(Described):
    model_config = example({"user_id": "customer-7", **_DESCRIBED})

    user_id: UserId | None = Field(
        None, description="The subject; absent: the key's, else the anonymous one."
    )


class ThreadPatch(Described):
    model_config = example(_DESCRIBED)


class ForkIn(Described):
    """From where to fork: a seq, a turn, a checkpoint, or the head if none is given."""

    model_config = example({"thread": "booking:204-retry", "seq": 3})

    thread: ThreadName
    seq: Origin | None = None
    turn: OriginTurn | None = None
    checkpoint: CheckpointRef | None = Field(None, description="Its seq, or its name.")

    @model_validator(mode="after")
    def one_origin(self) -> Self:
        origins = ("seq", "turn", "checkpoint")
        given = [name for name in origins if getattr(self, name) is not None]
        if len(given) > 1:
            says = f"nothing beside `{given[0]}`: one of `seq`, `turn`, `checkpoint`"
            raise RefusedError("value", allowed=says, loc=(given[1],))
        return self


class CloseIn(In):
    model_config = example({"reason": "completed"})

    reason: CloseReason = "completed"


class ReopenIn(In):
    model_config = example({})


class SegmentOut(Out):
    """Slots that a fork reads from an ancestor: first <= index < end."""

    thread_id: UUID = Field(validation_alias="thread")
    first: int
    end: int
    up_to_seq: int


class ThreadOut(Out):
    model_config = example(THREAD)

    thread: str
    thread_id: UUID
    status: Status
    seq: int
    scope: ScopeOut
    labels: dict[str, Any]
    config: ConfigOut
    subject_id: UUID
    parent_id: UUID | None
    fork_seq: int | None
    lineage: list[SegmentOut]
    slots: int
    inherited: int
    turns: int
    tokens: int
    bytes: int
    created_at: datetime
    last_event_at: datetime
    last_active_at: datetime | None

    @classmethod
    def of(cls, line: ThreadLine, *, called: str) -> ThreadOut:
        """Build it by the name that the key calls the thread by."""
        return cls.from_record(
            line,
            thread=called,
            thread_id=line.id,
            seq=line.head_seq,
            scope=line,
            config=ConfigOut.of(Limits(**line.config)),
            subject_id=line.subject,
            parent_id=line.parent,
            lineage=[
                SegmentOut(thread_id=UUID(home), first=first, end=end, up_to_seq=up_to)
                for home, first, end, up_to in line.lineage
            ],
        )

    @classmethod
    def as_of(cls, thread: Thread, state: ThreadState, *, called: str) -> ThreadOut:
        """Build the thread as it was; before its first event, as it came into being."""
        now = ThreadLine.of(thread)
        return cls.from_record(
            state,
            thread=called,
            thread_id=thread.id,
            status="open" if state.status == "new" else state.status,
            labels=dict(state.labels),
            config=ConfigOut.of(state.config),
            subject_id=state.subject,
            parent_id=now.parent,
            fork_seq=now.fork_seq,
            slots=state.slot_count,
            turns=state.turn_count,
            tokens=state.token_count,
            bytes=state.byte_count,
            created_at=now.created_at,
            last_event_at=state.at or now.created_at,
            last_active_at=state.active_at,
        )


class ClosedOut(Out):
    model_config = example(
        {
            "thread": "booking:204",
            "thread_id": THREAD_ID,
            "seq": 4,
            "status": "closed",
        }
    )

    thread: str
    thread_id: UUID
    seq: int
    status: Status


class ThreadsOut(Out):
    model_config = example({"items": [THREAD], "next": None})

    items: list[ThreadOut]
    next: str | None


class ThreadsQuery(Pagination):
    """What is absent is not asked for; what is there is joined by AND.

    `label.<name>=<value>` asks for a label: `abc`, `1`, `0.5`, `true`.
    """

    status: Status | None = None
    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None
    parent: ThreadName | None = Field(None, description="Forks of this thread.")
    active_after: Time | None = None
    created_after: Time | None = None
    sort: Literal["active", "created", "slots"] = "active"
    order: Literal["desc", "asc"] = "desc"
    labels: dict[Name, Name] = Field({}, alias="label.", exclude=True)

    @model_validator(mode="before")
    @classmethod
    def gather_labels(cls, query: Mapping[str, Any]) -> dict[str, Any]:
        named = {name: query[name] for name in query if name.startswith(_LABEL)}
        gathered = {name: query[name] for name in query if name not in named}
        if named:
            gathered[_LABEL] = {n.removeprefix(_LABEL): v for n, v in named.items()}
        return gathered


class SearchIn(In):
    """The filters of the list, and a `user_id`, which stays out of URLs and logs."""

    model_config = example({"user_id": "customer-7", "status": "open"})

    user_id: UserId | None = None
    status: Status | None = None
    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None
    labels: dict[Name, Label] = {}
    parent: ThreadName | None = None
    active_after: Time | None = None
    created_after: Time | None = None
    sort: Literal["active", "created", "slots"] = "active"
    order: Literal["desc", "asc"] = "desc"
    after: str | None = None
    limit: BodyLimit = 50


def thread_filter(
    query: ThreadsQuery | SearchIn, labels: Mapping[str, str]
) -> ThreadFilter:
    names = ("status", "agent_type", "agent_instance", "session", "parent")
    times = ("active_after", "created_after")
    same = {name: getattr(query, name) for name in (*names, *times)}
    return ThreadFilter(**same, labels=labels)
