from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    Id,
    In,
    Name,
    Out,
    RefusedError,
    ThreadName,
    Time,
    example,
)
from memoryhub.api.document.samples import AT, PLACE
from memoryhub.api.document.schemas import Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_subject, find_thread
from memoryhub.api.knowledge.facts import ASSERTION, AssertionOut
from memoryhub.errors import (
    BadCursorError,
    NoRoomError,
    NotFoundError,
    ProjectFullError,
    ThreadFullError,
    TokensRequiredError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.text.json_text import dumped
from memoryhub.kernel.threads.exchanges import ToolUse
from memoryhub.models.server.clock import clock
from memoryhub.queries.episodes.episodes import Episode, EpisodeFilter, list_episodes
from memoryhub.queries.episodes.pending import Outcome, State, list_outcomes
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import episodes
from memoryhub.services.threads.episodes import NewEpisode

#: Calls that one exchange is remembered with.
MAX_CALLS = 100

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
    "facts": [ASSERTION],
}


def _words(text: str) -> str:
    if not text.strip():
        raise RefusedError("value", allowed="text that is not blank")
    return text


def _few(calls: list[Any]) -> list[Any]:
    if len(calls) > MAX_CALLS:
        raise RefusedError("batch_size", allowed=f"at most {MAX_CALLS} calls")
    return calls


Words = Annotated[
    str, AfterValidator(_words), WithJsonSchema({"type": "string", "minLength": 1})
]


class ToolUseIn(In):
    """A tool that was called, and what it gave if that is known."""

    name: Name = Field(description="The tool's.")
    arguments: Any = Field(None, description="JSON, or text of JSON, as it was sent.")
    result: str | None = Field(None, description="What the tool gave, as text.")

    def use(self) -> ToolUse:
        sent = {} if self.arguments is None else self.arguments
        text = sent if isinstance(sent, str) else dumped(sent)
        return ToolUse(name=self.name, arguments=text, result=self.result)


class EpisodeIn(In):
    model_config = example(_IN)

    thread: ThreadName
    input: Words = Field(description="What the user said.")
    output: Words = Field(description="What the assistant answered.")
    tool_calls: Annotated[list[ToolUseIn], AfterValidator(_few)] = Field(
        default_factory=list, description="Called in between, in this order."
    )
    occurred_at: Time | None = Field(None, description="When it was; else it is now.")

    def new(self) -> NewEpisode:
        return NewEpisode(
            question=self.input,
            answer=self.output,
            uses=[each.use() for each in self.tool_calls],
            occurred_at=self.occurred_at,
        )


class RememberedOut(Out):
    """Where the messages are; `seq` is that of the last."""

    model_config = example({**PLACE, "first": 0, "end": 4, "seq": 5, "at": AT})

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
    """An exchange: what the user said, and what followed up to when it spoke again."""

    model_config = example(EPISODE)

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
    consolidation: State = Field(
        description="Whether the language model was asked what is to be remembered of "
        "it; `failed` is asked again. Without a model all is `pending`."
    )
    facts: list[AssertionOut] = Field(
        description="What was learnt from it, by anybody."
    )

    @classmethod
    def from_episode(cls, agent: Agent, found: Episode, outcome: Outcome) -> EpisodeOut:
        question, answer = found.input, found.output
        return cls.from_record(
            found,
            thread=agent.calls(found.thread.name),
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
    model_config = example({"items": [EPISODE], "next": None})

    items: list[EpisodeOut]
    next: str | None


class EpisodesQuery(Pagination):
    thread: ThreadName | None = Field(None, description="Of this thread only.")
    begin: Time | None = Field(
        None, alias="from", description="Recorded then or later."
    )
    end: Time | None = Field(None, alias="to", description="Recorded before then.")


router = StrictRouter(tags=["episodes"])


@router.route(
    "GET",
    "/subjects/{subject}/episodes",
    needs=auth.READ,
    out=EpisodesOut,
    refusals=[*GONE, BadCursorError],
)
async def list_all(
    request: HttpRequest, subject: Path[Id], query: Query[EpisodesQuery]
) -> HttpResponse:
    """What happened: exchanges of the subject's threads, the newest first.

    `from` and `to` go by when they were recorded. Tool results are read as slots. A
    part ends early at about 4 MiB of content; `next` goes on after it.
    """
    return await read(_list, auth.caller(request), subject, query)


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
    """Remember an exchange: its messages are appended to a thread, all or none.

    A new name makes a thread of the subject; another subject's thread is not found.
    """
    agent = auth.caller(request)
    found = await read(find_subject, agent, subject)
    receipt = await episodes.remember(
        agent=agent,
        subject=found.id,
        thread=body.thread,
        episode=body.new(),
        if_match=if_match(request),
        request=idempotency(request, body),
    )
    return rendered(_remembered(receipt), status=201, replayed=receipt.replayed)


def _remembered(receipt: Receipt) -> RememberedOut:
    slots = receipt.all(SlotAppended)
    last = receipt.events[-1]
    return RememberedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        first=slots[0].index,
        end=slots[-1].index + 1,
        seq=last.seq,
        at=last.at,
    )


def _list(agent: Agent, subject: UUID, query: EpisodesQuery) -> HttpResponse:
    found = find_subject(agent, subject)
    thread = find_thread(agent, query.thread) if query.thread else None
    if thread and thread.subject_id != found.id:
        raise NotFoundError
    batch = list_episodes(
        found,
        EpisodeFilter(thread=thread, begin=query.begin, end=query.end),
        now=clock.now(),
        after=query.after,
        limit=query.limit,
    )
    outcomes = list_outcomes(found, batch.items)
    items = [
        EpisodeOut.from_episode(agent, each, outcome)
        for each, outcome in zip(batch.items, outcomes, strict=True)
    ]
    return rendered(EpisodesOut(items=items, next=batch.next))
