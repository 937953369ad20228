from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
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
from memoryhub.api.document.schemas import AsOf, Described, Pagination, ScopeOut, Status
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import idempotency, if_match
from memoryhub.api.http.reading import GONE, find_thread, require_unrestricted, seq_of
from memoryhub.errors import (
    BadCursorError,
    BadPreconditionError,
    BeyondHeadError,
    CheckpointUnknownError,
    ForkTooDeepError,
    HomeThreadError,
    IdempotencyMismatchError,
    InvalidError,
    NameTakenError,
    NotFoundError,
    PinBudgetError,
    ProjectFullError,
    ScopeConflictError,
    SeqUnknownError,
    StaleError,
    SubjectConflictError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.journal import Receipt
from memoryhub.journal.rows import projections
from memoryhub.kernel.commands import ForkThread
from memoryhub.kernel.state.events import CloseReason, Limits
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.readers import read
from memoryhub.queries.threads.threads import ThreadFilter, ThreadLine, list_threads
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.threads import threads

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
    warnings: list[Literal["anonymous_bucket"]] = Field(
        [],
        exclude_if=operator.not_,
        description="When it is made without a `user_id` where others have one: what "
        "is said in it is nobody's in particular.",
    )

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
            warnings=[],
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
            warnings=[],
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


router = StrictRouter(tags=["threads"])
ListQuery = ThreadsQuery | SearchIn
Named = TypeVar("Named", bound=Callable[..., Any])


# The actions come first: the plain address below would match theirs as well.


@router.route(
    "POST",
    "/threads/{thread}:close",
    needs=auth.WRITE,
    out=ClosedOut,
    refusals=[*GONE, HomeThreadError, IdempotencyMismatchError],
)
async def close(
    request: HttpRequest, thread: Path[ThreadName], body: CloseIn
) -> HttpResponse:
    """Refuse agent writes from here on. A repeat writes nothing."""
    receipt = await threads.close(
        agent=auth.caller(request),
        thread=thread,
        reason=body.reason,
        request=idempotency(request, body),
    )
    return _closed(receipt, status="closed")


@router.route(
    "POST",
    "/threads/{thread}:reopen",
    needs=auth.WRITE,
    out=ClosedOut,
    refusals=[*GONE, HomeThreadError, IdempotencyMismatchError],
)
async def reopen(
    request: HttpRequest, thread: Path[ThreadName], body: ReopenIn
) -> HttpResponse:
    """Take agent writes again. A repeat writes nothing."""
    receipt = await threads.reopen(
        agent=auth.caller(request),
        thread=thread,
        request=idempotency(request, body),
    )
    return _closed(receipt, status="open")


@router.route(
    "POST",
    "/threads/{thread}:fork",
    needs=auth.WRITE,
    out=ThreadOut,
    status=(201,),
    refusals=[
        *GONE,
        BeyondHeadError,
        CheckpointUnknownError,
        ForkTooDeepError,
        HomeThreadError,
        IdempotencyMismatchError,
        NameTakenError,
        PinBudgetError,
        ProjectFullError,
    ],
)
async def fork(
    request: HttpRequest, thread: Path[ThreadName], body: ForkIn
) -> HttpResponse:
    """Make a thread that goes on from this one: from an event, a checkpoint or now."""
    agent = auth.caller(request)
    again = idempotency(request, body)
    command = await read(_fork_command, agent, thread, body)
    receipt = await threads.fork(
        agent=agent, name=body.thread, command=command, request=again
    )
    made = await read(_current, agent, receipt.name)
    return rendered(made, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads",
    needs=auth.READ,
    out=ThreadsOut,
    refusals=[BadCursorError, SubjectErasedError, SubjectRestrictedError],
)
async def list_all(request: HttpRequest, query: Query[ThreadsQuery]) -> ThreadsOut:
    """List threads by latest activity, creation or size.

    Left out are those of restricted subjects, and erased ones unless asked for.
    `label.<name>=<value>` asks for a label as well, e.g. `label.trial=0`.
    """
    where = thread_filter(query, query.labels)
    agent = auth.caller(request)
    return _listed(agent, await read(_list, agent, where, query))


@router.route(
    "POST",
    "/threads:search",
    needs=auth.READ,
    out=ThreadsOut,
    refusals=[BadCursorError, SubjectErasedError, SubjectRestrictedError],
)
async def search(request: HttpRequest, body: SearchIn) -> ThreadsOut:
    """List threads of a `user_id`.

    A POST, so that the `user_id` stays out of URLs and logs; it changes nothing.
    """
    labels = {name: projections.text(value) for name, value in body.labels.items()}
    where = thread_filter(body, labels)
    agent = auth.caller(request)
    return _listed(agent, await read(_search, agent, where, body))


@router.route(
    "PUT",
    "/threads/{thread}",
    needs=auth.WRITE,
    out=ThreadOut,
    status=(200, 201),
    refusals=[
        *GONE,
        HomeThreadError,
        ScopeConflictError,
        SubjectConflictError,
        ProjectFullError,
    ],
)
async def put(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadIn
) -> HttpResponse:
    """Create the thread, or return the one of that name.

    What is absent is not compared. A scope level that is not set may be filled once.
    """
    agent = auth.caller(request)
    subject = None
    if body.user_id is not None:
        found = await read(_subject, agent, thread, body.user_id)
        if isinstance(found, subjects.Prepared):
            found = await subjects.create(found)
        subject = found
    receipt = await threads.create(
        agent=agent,
        thread=thread,
        subject=subject,
        scope=body.scope.scope(),
        labels=body.labels,
        config=Limits(**body.config.model_dump()),
    )
    bucket = receipt.created and subject is None and agent.bound is None
    return rendered(
        await read(_put, agent, thread, bucket=bucket),
        status=201 if receipt.created else 200,
    )


@router.route(
    "GET",
    "/threads/{thread}",
    needs=auth.READ,
    out=ThreadOut,
    refusals=[*GONE, SeqUnknownError],
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> ThreadOut:
    """A thread with its counters and lineage, now or as of an event."""
    return await read(_as_of, auth.caller(request), thread, query)


@router.route(
    "PATCH",
    "/threads/{thread}",
    needs=auth.WRITE,
    out=ThreadOut,
    refusals=[
        *GONE,
        HomeThreadError,
        ScopeConflictError,
        StaleError,
        BadPreconditionError,
        PinBudgetError,
    ],
)
async def patch(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadPatch
) -> ThreadOut:
    """Fill scope levels, replace the labels as a whole, change limits and paging.

    What is null goes back to its default. A smaller budget evicts what no longer fits.
    """
    agent = auth.caller(request)
    await threads.amend(
        agent=agent,
        thread=thread,
        scope=body.scope.scope(),
        labels=body.labels,
        config=body.config.model_dump(exclude_unset=True) or None,
        if_match=if_match(request),
    )
    return await read(_current, agent, thread)


def _also_named(method: str, *, needs: str) -> Callable[[Named], Named]:
    """A thread may be called `x:close`; only a POST to that address is the action."""

    def register(view: Named) -> Named:
        for action in ("close", "reopen", "fork"):
            path = "/threads/{thread}:" + action
            router.route(method, path, needs=needs, out=ThreadOut, hidden=True)(view)
        return view

    return register


@_also_named("GET", needs=auth.READ)
async def get_so_named(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> ThreadOut:
    return await get(request, _whole_name(request, thread), query)


@_also_named("PUT", needs=auth.WRITE)
async def put_so_named(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadIn
) -> HttpResponse:
    return await put(request, _whole_name(request, thread), body)


@_also_named("PATCH", needs=auth.WRITE)
async def patch_so_named(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadPatch
) -> ThreadOut:
    return await patch(request, _whole_name(request, thread), body)


def _whole_name(request: HttpRequest, thread: str) -> str:
    name = f"{thread}:{request.path.rpartition(':')[2]}"
    if not names.valid(name):
        raise InvalidError(code="name", loc="path.thread")
    return name


def _list(agent: Agent, where: ThreadFilter, query: ListQuery) -> Batch[ThreadLine]:
    require_unrestricted(agent)
    return list_threads(
        agent.project,
        where=where,
        sort=query.sort,
        order=query.order,
        after=query.after,
        limit=query.limit,
        bound=agent.bound,
    )


def _search(agent: Agent, where: ThreadFilter, query: SearchIn) -> Batch[ThreadLine]:
    if query.user_id is None:
        return _list(agent, where, query)
    subject = subjects.find(agent.project, query.user_id, bound=agent.bound)
    if subject is None:
        return Batch(items=(), next=None)
    if subject.state == Subject.State.RESTRICTED:
        raise SubjectRestrictedError
    return _list(agent, replace(where, subject=subject.id), query)


def _listed(agent: Agent, batch: Batch[ThreadLine]) -> ThreadsOut:
    return ThreadsOut(
        items=[
            ThreadOut.of(line, called=agent.calls(line.name)) for line in batch.items
        ],
        next=batch.next,
    )


def _subject(agent: Agent, name: str, user_id: str) -> Subject | subjects.Prepared:
    """The subject of a `user_id`; a bound key knows no other than its own.

    A new one is not prepared for a thread that it could not have.
    """
    subject = subjects.find(agent.project, user_id, bound=agent.bound)
    if subject is not None:
        return subject
    if agent.bound is not None:
        raise NotFoundError
    threads.require_creatable(agent.project, name)
    return subjects.prepare(agent.project, user_id)


def _current(agent: Agent, name: str) -> ThreadOut:
    return ThreadOut.of(ThreadLine.of(find_thread(agent, name)), called=name)


def _put(agent: Agent, name: str, *, bucket: bool) -> ThreadOut:
    """The thread; if it went into the `bucket`, whether others have a subject."""
    found = _current(agent, name)
    mixed = bucket and subjects.has_named(agent.project)
    return found.model_copy(update={"warnings": ["anonymous_bucket"]} if mixed else {})


def _as_of(agent: Agent, name: str, moment: AsOf) -> ThreadOut:
    thread = find_thread(agent, name)
    seq = seq_of(thread, moment)
    if seq is None:
        return ThreadOut.of(ThreadLine.of(thread), called=name)
    return ThreadOut.as_of(thread, replay.state_at(thread, seq).state, called=name)


def _fork_command(agent: Agent, name: str, body: ForkIn) -> ForkThread:
    parent = find_thread(agent, name)
    if parent.status == Thread.Status.RETIRED:
        raise ThreadErasedError
    try:
        origin, seq = _origin(parent, body)
        return threads.fork_command(
            origin,
            seq,
            scope=body.scope.scope(),
            labels=body.labels,
            config=Limits(**body.config.model_dump()),
        )
    except SeqUnknownError:
        raise BeyondHeadError(head_seq=parent.head_seq) from None


def _origin(parent: Thread, body: ForkIn) -> tuple[Thread, int]:
    """The thread to fork, and as of which event; a checkpoint may be an ancestor's."""
    if body.checkpoint is not None:
        return checkpoints.origin_of(parent, body.checkpoint)
    if body.turn is not None:
        return parent, replay.seq_at_turn(parent, body.turn)
    return parent, parent.head_seq if body.seq is None else body.seq


def _closed(receipt: Receipt, *, status: Literal["open", "closed"]) -> HttpResponse:
    out = ClosedOut(
        thread=receipt.name, thread_id=receipt.thread, seq=receipt.seq, status=status
    )
    return rendered(out, replayed=receipt.replayed)
