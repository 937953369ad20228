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
    FieldRefusedError,
    In,
    Label,
    Name,
    Out,
    ThreadName,
    Time,
    UserId,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.memory_fields import CheckpointRef
from memoryhub.api.document.samples import THREAD, THREAD_ID
from memoryhub.api.document.schemas import AsOf, Described, Pagination, ScopeOut, Status
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import parse_idempotency, parse_if_match
from memoryhub.api.http.reading import (
    GONE,
    get_agent_thread,
    get_seq,
    require_unrestricted,
)
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
from memoryhub.journal import OrderReceipt
from memoryhub.journal.rows import projections
from memoryhub.kernel.commands import ForkThread
from memoryhub.kernel.state.events import CloseReason, ThreadConfig
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints
from memoryhub.queries.replay import replay
from memoryhub.queries.threads.readers import read
from memoryhub.queries.threads.threads import ThreadFilter, ThreadLine, list_threads
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.threads import threads

_LABEL = "label."
Origin = Annotated[
    int, build_range_check(1, MAX_INTEGER), build_range_schema(1, MAX_INTEGER)
]
OriginTurn = Annotated[
    int, build_range_check(0, MAX_INTEGER), build_range_schema(0, MAX_INTEGER)
]


_DESCRIBED = {
    "scope": {"agent_type": "booking", "session": "s-204"},
    "labels": {"channel": "web", "trial": 1},
    "config": {"max_slots": 50000},
}


class ThreadIn(Described):
    model_config = build_example({"user_id": "customer-7", **_DESCRIBED})

    user_id: UserId | None = Field(
        None, description="The subject; absent: the key's, else the anonymous one."
    )


class ThreadPatch(Described):
    model_config = build_example(_DESCRIBED)


class ForkIn(Described):
    """The point to fork at: a seq, a turn, a checkpoint; by default the head."""

    model_config = build_example({"thread": "booking:204-retry", "seq": 3})

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
            raise FieldRefusedError("value", allowed=says, loc=(given[1],))
        return self


class CloseIn(In):
    model_config = build_example({"reason": "completed"})

    reason: CloseReason = "completed"


class ReopenIn(In):
    model_config = build_example({})


class SegmentOut(Out):
    """Slots that a fork reads from an ancestor: first <= index < end."""

    thread_id: UUID = Field(validation_alias="thread")
    first: int
    end: int
    up_to_seq: int


class ThreadOut(Out):
    model_config = build_example(THREAD)

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
    def from_line(cls, line: ThreadLine, *, called: str) -> ThreadOut:
        """Build the answer with the name that the key uses for the thread."""
        return cls.from_record(
            line,
            thread=called,
            thread_id=line.id,
            seq=line.head_seq,
            scope=line,
            config=ConfigOut.from_config(ThreadConfig(**line.config)),
            subject_id=line.subject,
            parent_id=line.parent,
            warnings=[],
            lineage=[
                SegmentOut(thread_id=UUID(home), first=first, end=end, up_to_seq=up_to)
                for home, first, end, up_to in line.lineage
            ],
        )

    @classmethod
    def from_state(
        cls, thread: Thread, state: ThreadState, *, called: str
    ) -> ThreadOut:
        """Build the answer of a past state; before its first event a thread is open."""
        now = ThreadLine.from_row(thread)
        return cls.from_record(
            state,
            thread=called,
            thread_id=thread.id,
            status="open" if state.status == "new" else state.status,
            labels=dict(state.labels),
            config=ConfigOut.from_config(state.config),
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
    model_config = build_example(
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
    model_config = build_example({"items": [THREAD], "next": None})

    items: list[ThreadOut]
    next: str | None


class ThreadsQuery(Pagination):
    """Filters, joined by AND; an absent one does not filter.

    `label.<name>=<value>` filters by a label: `abc`, `1`, `0.5`, `true`.
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
    """Filters of the list and a `user_id`, kept out of URLs and logs."""

    model_config = build_example({"user_id": "customer-7", "status": "open"})

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


def build_thread_filter(
    query: ThreadsQuery | SearchIn, labels: Mapping[str, str]
) -> ThreadFilter:
    names = ("status", "agent_type", "agent_instance", "session", "parent")
    times = ("active_after", "created_after")
    same = {name: getattr(query, name) for name in (*names, *times)}
    return ThreadFilter(**same, labels=labels)


router = StrictRouter(tags=["threads"])
ListQuery = ThreadsQuery | SearchIn
Named = TypeVar("Named", bound=Callable[..., Any])


# Actions are registered first: the plain address below would match them as well.


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
    """Refuse agent writes from now on. A repeat writes nothing."""
    receipt = await threads.close(
        agent=auth.get_caller(request),
        thread=thread,
        reason=body.reason,
        request=parse_idempotency(request, body),
    )
    return _render_closed(receipt, status="closed")


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
        agent=auth.get_caller(request),
        thread=thread,
        request=parse_idempotency(request, body),
    )
    return _render_closed(receipt, status="open")


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
    """Fork a thread at an event, a checkpoint or its present head."""
    agent = auth.get_caller(request)
    again = parse_idempotency(request, body)
    command = await read(_build_fork, agent, thread, body)
    receipt = await threads.fork(
        agent=agent, name=body.thread, command=command, request=again
    )
    made = await read(_get_current, agent, receipt.name)
    return render_answer(made, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads",
    needs=auth.READ,
    out=ThreadsOut,
    refusals=[BadCursorError, SubjectErasedError, SubjectRestrictedError],
)
def list_all(request: HttpRequest, query: Query[ThreadsQuery]) -> ThreadsOut:
    """List threads by latest activity, creation or size.

    Threads of restricted subjects are left out, and erased ones unless asked for.
    `label.<name>=<value>` filters by a label, e.g. `label.trial=0`.
    """
    where = build_thread_filter(query, query.labels)
    agent = auth.get_caller(request)
    return _list_threads(agent, where, query)


@router.route(
    "POST",
    "/threads:search",
    needs=auth.READ,
    out=ThreadsOut,
    refusals=[BadCursorError, SubjectErasedError, SubjectRestrictedError],
)
def search(request: HttpRequest, body: SearchIn) -> ThreadsOut:
    """List threads of a `user_id`.

    A POST, so that the `user_id` stays out of URLs and logs; it changes nothing.
    """
    labels = {
        name: projections.render_label(value) for name, value in body.labels.items()
    }
    where = build_thread_filter(body, labels)
    agent = auth.get_caller(request)
    if body.user_id is not None:
        subject = subjects.find(agent.project, body.user_id, bound=agent.bound)
        if subject is None:
            return ThreadsOut(items=[], next=None)
        if subject.state == Subject.State.RESTRICTED:
            raise SubjectRestrictedError
        where = replace(where, subject=subject.id)
    return _list_threads(agent, where, body)


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

    Absent fields are not compared. A scope level that is not set may be filled once.
    """
    agent = auth.get_caller(request)
    subject = None
    if body.user_id is not None and body.user_id != agent.unknown_person:
        found = await read(_get_or_prepare_subject, agent, thread, body.user_id)
        if isinstance(found, subjects.PreparedSubject):
            found = await subjects.insert_subject_async(found)
        subject = found
    receipt = await threads.create(
        agent=agent,
        thread=thread,
        subject=subject,
        scope=body.scope.to_scope(),
        labels=body.labels,
        config=ThreadConfig(**body.config.model_dump()),
    )
    bucket = receipt.created and subject is None and agent.bound is None
    return render_answer(
        await read(_get_with_warnings, agent, thread, bucket=bucket),
        status=201 if receipt.created else 200,
    )


@router.route(
    "GET",
    "/threads/{thread}",
    needs=auth.READ,
    out=ThreadOut,
    refusals=[*GONE, SeqUnknownError],
)
def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> ThreadOut:
    """Read a thread's counters and lineage, now or as of an event."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    seq = get_seq(thread_row, query)
    if seq is None:
        return ThreadOut.from_line(ThreadLine.from_row(thread_row), called=thread)
    return ThreadOut.from_state(
        thread_row, replay.load_state_at(thread_row, seq).state, called=thread
    )


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
    """Fill scope levels, replace all labels, change limits and paging.

    Null restores a default. A smaller budget evicts what no longer fits.
    """
    agent = auth.get_caller(request)
    await threads.amend(
        agent=agent,
        thread=thread,
        scope=body.scope.to_scope(),
        labels=body.labels,
        config=body.config.model_dump(exclude_unset=True) or None,
        if_match=parse_if_match(request),
    )
    return await read(_get_current, agent, thread)


def _route_so_named(method: str, *, needs: str) -> Callable[[Named], Named]:
    """Register a view for threads named `x:close`; only a POST there is the action."""

    def register(view: Named) -> Named:
        for action in ("close", "reopen", "fork"):
            path = "/threads/{thread}:" + action
            router.route(method, path, needs=needs, out=ThreadOut, hidden=True)(view)
        return view

    return register


@_route_so_named("GET", needs=auth.READ)
def get_so_named(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> ThreadOut:
    return get(request, _build_whole_name(request, thread), query)


@_route_so_named("PUT", needs=auth.WRITE)
async def put_so_named(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadIn
) -> HttpResponse:
    return await put(request, _build_whole_name(request, thread), body)


@_route_so_named("PATCH", needs=auth.WRITE)
async def patch_so_named(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadPatch
) -> ThreadOut:
    return await patch(request, _build_whole_name(request, thread), body)


def _build_whole_name(request: HttpRequest, thread: str) -> str:
    name = f"{thread}:{request.path.rpartition(':')[2]}"
    if not names.is_valid(name):
        raise InvalidError(code="name", loc="path.thread")
    return name


def _list_threads(agent: Agent, where: ThreadFilter, query: ListQuery) -> ThreadsOut:
    require_unrestricted(agent)
    batch = list_threads(
        agent.project,
        where=where,
        sort=query.sort,
        order=query.order,
        after=query.after,
        limit=query.limit,
        bound=agent.bound,
    )
    return ThreadsOut(
        items=[
            ThreadOut.from_line(line, called=agent.get_thread_name(line.name))
            for line in batch.items
        ],
        next=batch.next,
    )


def _get_or_prepare_subject(
    agent: Agent, name: str, user_id: str
) -> Subject | subjects.PreparedSubject:
    """Return the subject of a `user_id`, prepared if new; a bound key has only its own.

    No subject is prepared for a thread that could not be created.
    """
    subject = subjects.find(agent.project, user_id, bound=agent.bound)
    if subject is not None:
        return subject
    if agent.bound is not None:
        raise NotFoundError
    threads.require_creatable(agent.project, name)
    return subjects.prepare_subject(agent.project, user_id)


def _get_current(agent: Agent, name: str) -> ThreadOut:
    return ThreadOut.from_line(
        ThreadLine.from_row(get_agent_thread(agent, name)), called=name
    )


def _get_with_warnings(agent: Agent, name: str, *, bucket: bool) -> ThreadOut:
    """Get the thread; warn if it joined the `bucket` beside named subjects."""
    found = _get_current(agent, name)
    mixed = bucket and subjects.has_named(agent.project)
    return found.model_copy(update={"warnings": ["anonymous_bucket"]} if mixed else {})


def _build_fork(agent: Agent, name: str, body: ForkIn) -> ForkThread:
    parent = get_agent_thread(agent, name)
    if parent.status == Thread.Status.RETIRED:
        raise ThreadErasedError
    try:
        origin, seq = _get_origin(parent, body)
        return threads.build_fork(
            origin,
            seq,
            scope=body.scope.to_scope(),
            labels=body.labels,
            config=ThreadConfig(**body.config.model_dump(exclude_unset=True)),
        )
    except SeqUnknownError:
        raise BeyondHeadError(head_seq=parent.head_seq) from None


def _get_origin(parent: Thread, body: ForkIn) -> tuple[Thread, int]:
    """Return the thread to fork and the seq; a checkpoint may be an ancestor's."""
    if body.checkpoint is not None:
        return checkpoints.find_origin(parent, body.checkpoint)
    if body.turn is not None:
        return parent, replay.get_turn_end(parent, body.turn)
    return parent, parent.head_seq if body.seq is None else body.seq


def _render_closed(
    receipt: OrderReceipt, *, status: Literal["open", "closed"]
) -> HttpResponse:
    out = ClosedOut(
        thread=receipt.name, thread_id=receipt.thread, seq=receipt.seq, status=status
    )
    return render_answer(out, replayed=receipt.replayed)
