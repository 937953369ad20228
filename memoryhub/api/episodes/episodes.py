from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    FieldRefusedError,
    Id,
    In,
    Name,
    Out,
    ThreadName,
    Time,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import AT, PLACE
from memoryhub.api.document.schemas import Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_subject, get_agent_thread
from memoryhub.api.knowledge.facts import AssertionOut
from memoryhub.errors import (
    BadCursorError,
    NoModelError,
    NoRoomError,
    NotFoundError,
    ProjectFullError,
    ThreadFullError,
    TokensRequiredError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.commands import Command
from memoryhub.kernel.knowledge.consolidation import ExchangeRequested
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.text.json_text import dump_json
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.kernel.threads.exchanges import RememberedCall
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes.episodes import (
    EpisodeFilter,
    EpisodeView,
    list_episodes,
)
from memoryhub.queries.episodes.pending import (
    EpisodeOutcome,
    ExchangeState,
    build_state_check,
    list_outcomes,
)
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import consolidations, homes
from memoryhub.services.threads import episodes
from memoryhub.services.threads.episodes import NewEpisode

#: Most tool calls of one remembered exchange.
MAX_CALLS = 100
#: Most exchanges that one call requests.
MOST_REQUESTED = 50

_QUESTION = {"role": "user", "content": "Is seat 12A free?"}
_ANSWER = {"role": "assistant", "content": "Yes, it is."}
_CALL = {"name": "seat_map", "arguments": '{"flight":"LX318"}'}
_IN = {
    "thread": "booking:204",
    "input": "Is seat 12A free?",
    "output": "Yes, it is.",
    "tool_calls": [{**_CALL, "result": "12A: free"}],
    "occurred_at": AT,
}
EPISODE = {
    **PLACE,
    "index": 0,
    "turn": 0,
    "at": AT,
    "occurred_at": AT,
    "ended_at": AT,
    "input": {"index": 0, "seq": 2, "at": AT, "erased": False, "content": _QUESTION},
    "output": {"index": 3, "seq": 5, "at": AT, "erased": False, "content": _ANSWER},
    "tool_calls": [{**_CALL, "index": 1, "seq": 3}],
    "messages": 4,
    "over": True,
    "cut": False,
    "inherited": False,
    "consolidation": "consolidated",
    "facts": [],
}


def _check_words(text: str) -> str:
    if not text.strip():
        raise FieldRefusedError("value", allowed="text that is not blank")
    return text


def _check_call_count(calls: list[Any]) -> list[Any]:
    if len(calls) > MAX_CALLS:
        raise FieldRefusedError("batch_size", allowed=f"at most {MAX_CALLS} calls")
    return calls


Words = Annotated[
    str,
    AfterValidator(_check_words),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


Count = Annotated[
    int, build_range_check(0, MAX_INTEGER), build_range_schema(0, MAX_INTEGER)
]


RequestLimit = Annotated[
    int,
    build_range_check(1, MOST_REQUESTED, code="limit"),
    build_range_schema(1, MOST_REQUESTED),
]


class ToolUseIn(In):
    """A tool that was called, and its result if known."""

    name: Name = Field(description="The tool's.")
    arguments: Any = Field(None, description="JSON, or text of JSON, as it was sent.")
    result: str | None = Field(None, description="What the tool gave, as text.")

    def to_tool_use(self) -> RememberedCall:
        sent = {} if self.arguments is None else self.arguments
        text = sent if isinstance(sent, str) else dump_json(sent)
        return RememberedCall(name=self.name, arguments=text, result=self.result)


class EpisodeIn(In):
    model_config = build_example(_IN)

    thread: ThreadName
    input: Words = Field(description="What the user said.")
    output: Words = Field(description="What the assistant answered.")
    tool_calls: Annotated[list[ToolUseIn], AfterValidator(_check_call_count)] = Field(
        default_factory=list, description="Called in between, in this order."
    )
    occurred_at: Time | None = Field(None, description="When it was; else it is now.")

    def to_new_episode(self) -> NewEpisode:
        return NewEpisode(
            question=self.input,
            answer=self.output,
            uses=[each.to_tool_use() for each in self.tool_calls],
            occurred_at=self.occurred_at,
        )


class RememberedOut(Out):
    """Range of the messages; `seq` is the last one's."""

    model_config = build_example({**PLACE, "first": 0, "end": 4, "seq": 5, "at": AT})

    thread: str
    thread_id: UUID
    first: int
    end: int
    seq: int
    at: datetime


class EpisodeMessageOut(Out):
    index: int
    seq: int
    at: datetime
    erased: bool
    content: Any


class ToolCallOut(Out):
    name: str = Field(description="The tool's.")
    arguments: Any = Field(description="As they were sent, mostly text of JSON.")
    index: int
    seq: int


class EpisodeOut(Out):
    """An exchange: a user's message and all that followed until the next one."""

    model_config = build_example(EPISODE)

    thread: str
    thread_id: UUID = Field(description="Whose journal holds it: an ancestor's, maybe.")
    index: int
    turn: int
    at: datetime
    occurred_at: datetime = Field(description="By the agent's clock, if it said so.")
    ended_at: datetime = Field(description="When the last of its messages came.")
    input: EpisodeMessageOut = Field(description="What the user said.")
    output: EpisodeMessageOut | None = Field(
        description="What the assistant said last; null until it does."
    )
    tool_calls: list[ToolCallOut] = Field(description="In their order.")
    messages: int = Field(description="Messages from the user's on.")
    over: bool = Field(
        description="The user spoke again, the thread closed or fell silent."
    )
    cut: bool = Field(description="Of a long one only the begin and the end were read.")
    inherited: bool
    consolidation: ExchangeState = Field(
        description="Whether the model was asked what to remember of it; `failed` is "
        "asked again. Without a model all is `pending`."
    )
    facts: list[AssertionOut] = Field(
        description="What was learnt from it, by anybody."
    )

    @classmethod
    def from_episode(
        cls, agent: Agent, found: EpisodeView, outcome: EpisodeOutcome
    ) -> EpisodeOut:
        question, answer = found.input, found.output
        return cls.from_record(
            found,
            thread=agent.get_thread_name(found.thread.name),
            thread_id=question.home,
            **{each: getattr(question, each) for each in ("index", "turn", "at")},
            inherited=question.inherited,
            consolidation=outcome.state,
            facts=[AssertionOut.from_line(agent, each) for each in outcome.facts],
            input=EpisodeMessageOut.model_validate(question),
            output=answer and EpisodeMessageOut.model_validate(answer),
            tool_calls=[
                ToolCallOut(
                    name=call.name,
                    arguments=call.arguments,
                    index=line.index,
                    seq=line.seq,
                )
                for line, call in found.tool_calls
            ],
        )


class EpisodesOut(Out):
    model_config = build_example({"items": [EPISODE], "next": None})

    items: list[EpisodeOut]
    next: str | None


class EpisodesQuery(Pagination):
    thread: ThreadName | None = Field(None, description="Of this thread only.")
    begin: Time | None = Field(None, alias="from", description="It was then or later.")
    end: Time | None = Field(None, alias="to", description="It was before then.")
    recorded_before: Time | None = Field(None, description="Recorded before then.")
    consolidation: ExchangeState | None = Field(None, description="In that state.")


class ConsolidatedIn(In):
    model_config = build_example({"thread": "booking:204", "index": 0})

    thread: ThreadName
    index: Count = Field(description="Of the user's message.")


class ConsolidatedOut(Out):
    model_config = build_example({"thread": "booking:204", "index": 0, "seq": 3})

    thread: str
    index: int
    seq: int = Field(description="The head of the home thread.")


class ConsolidateIn(In):
    model_config = build_example({"thread": "booking:204", "limit": 10})

    thread: ThreadName | None = Field(None, description="Of this thread only.")
    limit: RequestLimit = Field(10, description="Exchanges at most, the newest.")


class RequestedEpisodeOut(Out):
    thread: str
    thread_id: UUID
    index: int


class ConsolidateOut(Out):
    model_config = build_example({"items": [{**PLACE, "index": 0}], "seq": 3})

    items: list[RequestedEpisodeOut] = Field(description="Requested by this call.")
    seq: int = Field(description="The head of the home thread.")


router = StrictRouter(tags=["episodes"])


@router.route(
    "GET",
    "/subjects/{subject}/episodes",
    needs=auth.READ,
    out=EpisodesOut,
    refusals=[*GONE, BadCursorError],
)
def list_all(
    request: HttpRequest, subject: Path[Id], query: Query[EpisodesQuery]
) -> HttpResponse:
    """List exchanges of the subject's threads, newest first.

    Ordered by recorded time; `from` and `to` compare `occurred_at`. Tool results are
    read as slots. A part ends early at about 4 MiB of content, or after 2,000 episodes
    looked at; `next` goes on after it.
    """
    agent = auth.get_caller(request)
    found = get_agent_subject(agent, subject)
    thread = get_agent_thread(agent, query.thread) if query.thread else None
    if thread and thread.subject_id != found.id:
        raise NotFoundError
    batch = list_episodes(
        found,
        EpisodeFilter(
            thread=thread,
            begin=query.begin,
            end=query.end,
            recorded_before=query.recorded_before,
            consolidation=query.consolidation,
        ),
        keeps=query.consolidation and build_state_check(found, query.consolidation),
        now=clock.now(),
        after=query.after,
        limit=query.limit,
    )
    outcomes = list_outcomes(found, batch.items)
    items = [
        EpisodeOut.from_episode(agent, each, outcome)
        for each, outcome in zip(batch.items, outcomes, strict=True)
    ]
    return render_answer(EpisodesOut(items=items, next=batch.next))


@router.route(
    "POST",
    "/subjects/{subject}/episodes:consolidated",
    needs=auth.WRITE,
    out=ConsolidatedOut,
    refusals=CONDITIONAL,
)
async def mark_consolidated(
    request: HttpRequest, subject: Path[Id], body: ConsolidatedIn
) -> HttpResponse:
    """Mark an exchange that the agent has learnt from itself.

    The language model is not asked about it. An exchange that was asked about is stale.
    """
    agent, named = auth.get_caller(request), parse_idempotency(request, body)

    def prepare_command() -> tuple[Subject, Command]:
        found = get_agent_subject(agent, subject)
        thread = get_agent_thread(agent, body.thread)
        if thread.subject_id != found.id:
            raise NotFoundError
        make = partial(consolidations.build_mark, found, thread, body.index)
        return found, homes.build_or_refuse(make, named)

    found, command = await read(prepare_command)
    receipt = await homes.submit(
        agent=agent,
        subject=found,
        command=command,
        if_match=parse_if_match(request),
        epoch=found.epoch,
        request=named,
    )
    out = ConsolidatedOut(thread=body.thread, index=body.index, seq=receipt.seq)
    return render_answer(out, replayed=receipt.replayed)


@router.route(
    "POST",
    "/subjects/{subject}/episodes:consolidate",
    needs=auth.WRITE,
    out=ConsolidateOut,
    status=(202,),
    refusals=[*CONDITIONAL, NoModelError],
)
async def consolidate(
    request: HttpRequest, subject: Path[Id], body: ConsolidateIn
) -> HttpResponse:
    """Have the language model asked about pending exchanges that are over.

    Within seconds, even where the project does not ask by itself. What is requested
    already is not requested again.
    """
    agent, named = auth.get_caller(request), parse_idempotency(request, body)

    def prepare_command() -> tuple[Subject, Command]:
        found = get_agent_subject(agent, subject)
        thread = get_agent_thread(agent, body.thread) if body.thread else None
        if thread and thread.subject_id != found.id:
            raise NotFoundError
        make = partial(consolidations.build_request, found, thread, limit=body.limit)
        return found, homes.build_or_refuse(make, named)

    found, command = await read(prepare_command)
    receipt = await homes.submit(
        agent=agent,
        subject=found,
        command=command,
        if_match=parse_if_match(request),
        epoch=found.epoch,
        request=named,
    )
    out = await read(_build_requested, agent, receipt)
    return render_answer(out, status=202, replayed=receipt.replayed)


def _build_requested(agent: Agent, receipt: OrderReceipt) -> ConsolidateOut:
    places = [
        (UUID(each.thread), each.begin)
        for each in receipt.list_events(ExchangeRequested)
    ]
    rows = Thread.objects.filter(id__in={thread for thread, _ in places})
    names = dict(rows.values_list("id", "name"))
    return ConsolidateOut(
        items=[
            RequestedEpisodeOut(
                thread=agent.get_thread_name(names[thread]),
                thread_id=thread,
                index=begin,
            )
            for thread, begin in places
        ],
        seq=receipt.seq,
    )


@router.route(
    "POST",
    "/subjects/{subject}/episodes",
    needs=auth.WRITE,
    out=RememberedOut,
    status=(201,),
    refusals=[
        *CONDITIONAL,
        ThreadFullError,
        NoRoomError,
        ProjectFullError,
        TokensRequiredError,
    ],
)
async def remember(
    request: HttpRequest, subject: Path[Id], body: EpisodeIn
) -> HttpResponse:
    """Remember an exchange: append its messages to a thread, all or none.

    A new name makes a thread of the subject; another subject's thread is not found.
    """
    agent = auth.get_caller(request)
    found = await read(get_agent_subject, agent, subject)
    receipt = await episodes.append_episode(
        agent=agent,
        subject=found.id,
        thread=body.thread,
        episode=body.to_new_episode(),
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    return render_answer(
        _build_remembered(receipt), status=201, replayed=receipt.replayed
    )


def _build_remembered(receipt: OrderReceipt) -> RememberedOut:
    slots = receipt.list_events(SlotAppended)
    last = receipt.events[-1]
    return RememberedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        first=slots[0].index,
        end=slots[-1].index + 1,
        seq=last.seq,
        at=last.at,
    )
