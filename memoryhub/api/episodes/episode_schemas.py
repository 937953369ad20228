"""Episodes on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
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
from memoryhub.kernel.text.json_text import dumped
from memoryhub.kernel.threads.exchanges import ToolUse
from memoryhub.queries.episodes.episodes import Episode
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

    @classmethod
    def from_episode(cls, name: str, found: Episode) -> EpisodeOut:
        """Tell of an episode; `name` is what the agent calls its thread."""
        question, answer = found.input, found.output
        return cls.from_record(
            found,
            thread=name,
            thread_id=question.home,
            **{each: getattr(question, each) for each in ("index", "turn", "at")},
            inherited=question.inherited,
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
