"""Facts on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    Field,
    StrictFloat,
    StrictInt,
    WithJsonSchema,
    model_validator,
)

from memoryhub.api.document.fields import (
    MAX_BATCH,
    BodyLimit,
    In,
    Out,
    RefusedError,
    ThreadName,
    Time,
    counted,
    example,
    within,
)
from memoryhub.api.document.samples import AT, SUBJECT_ID, THREAD_NAME
from memoryhub.api.document.schemas import Pagination
from memoryhub.kernel.knowledge.facts import MAX_ENTITY, MAX_PREDICATE, MAX_VALUE, fits
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.queries.knowledge.facts import AssertionLine, FactLine, FactStory, Source
from memoryhub.services.access.api_keys import Agent

_JAN: Final = "2026-01-01T00:00:00Z"
_FEB: Final = "2026-02-01T00:00:00Z"
_TRIPLE: Final = {"entity": "user", "predicate": "home airport", "value": "BGO"}
_SOURCE: Final = {"thread": THREAD_NAME, "seq": 12}
_FACT_IN: Final[dict[str, Any]] = {**_TRIPLE, "valid_from": _FEB, "source": _SOURCE}
FACT: Final[dict[str, Any]] = {
    "id": 7,
    **_TRIPLE,
    "valid_from": _FEB,
    "valid_until": None,
    "confirmations": 1,
    "confidence": 0.9,
    "cardinality": "single",
    "closed_by": None,
    "recorded_at": AT,
    "sources": [_SOURCE],
}
_ASSERTION: Final[dict[str, Any]] = {
    "seq": 7,
    "at": AT,
    "by": "agent:Zk3fW0aB",
    "origin": "agent",
    **_TRIPLE,
    "valid_from": _FEB,
    "valid_until": None,
    "confidence": 0.9,
    "many": False,
    "source": _SOURCE,
    "retracted_seq": None,
    "wrong": False,
    "counts": True,
}
_WRITTEN: Final = {"subject": SUBJECT_ID, "seq": 7, "ids": [7]}


def _text(most: int, *, lines: bool = False) -> AfterValidator:
    """Check a text that says something; one that names has no control characters."""

    def check(text: str) -> str:
        if not fits(text, most, lines=lines):
            raise RefusedError("value")
        return text

    return AfterValidator(check)


def _text_schema(most: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": most})


def _sure(number: float) -> float:
    if not 0 <= number <= 1:
        raise RefusedError("value")
    return float(number)


Entity = Annotated[str, _text(MAX_ENTITY), _text_schema(MAX_ENTITY)]
Predicate = Annotated[str, _text(MAX_PREDICATE), _text_schema(MAX_PREDICATE)]
Value = Annotated[str, _text(MAX_VALUE, lines=True), _text_schema(MAX_VALUE)]
Confidence = Annotated[
    StrictFloat | StrictInt,
    AfterValidator(_sure),
    Field(json_schema_extra={"minimum": 0, "maximum": 1}),
]


class SourceIn(In):
    """A message, a page or a note of a thread of the subject."""

    thread: ThreadName
    seq: Annotated[int, within(1, 2**53), counted(1, 2**53)]


class FactIn(In):
    model_config = example(_FACT_IN)

    entity: Entity = Field(description="Who or what it is about.")
    predicate: Predicate = Field(description="What about it.")
    value: Value
    confidence: Confidence | None = None
    valid_from: Time | None = Field(
        None, description="Absent: when its source was recorded, or now."
    )
    valid_until: Time | None = Field(None, description="Absent: no end is known.")
    many: bool = Field(default=False, description="Several values hold at once.")
    source: SourceIn | None = Field(None, description="What it was learnt from.")
    origin: Literal["agent", "model", "import"] = "agent"

    @model_validator(mode="after")
    def in_order(self) -> Self:
        begin, end = self.valid_from, self.valid_until
        if begin is not None and end is not None and end <= begin:
            says = "a time after `valid_from`"
            raise RefusedError("value", allowed=says, loc=("valid_until",))
        return self


def _batch(items: list[FactIn]) -> list[FactIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise RefusedError("batch_size")
    return items


class FactsIn(In):
    model_config = example({"items": [_FACT_IN]})

    items: Annotated[
        list[FactIn],
        AfterValidator(_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class EndIn(In):
    model_config = example({"at": _FEB})

    at: Time = Field(description="When it ceased to hold.")
    origin: Literal["agent", "model"] = "agent"


class RetractIn(In):
    model_config = example({"reason": "wrong"})

    reason: Literal["wrong", "duplicate", "withdrawn"]
    whole: bool = Field(
        default=True, description="All that the fact rests on, or this one assertion."
    )


class TimelineIn(In):
    model_config = example(
        {"entity": "user", "predicate": "home airport", "cardinality": "single"}
    )

    entity: Entity
    predicate: Predicate
    cardinality: Cardinality | None = Field(description="Null takes it back.")


class Moment(In):
    """The two clocks: the world's, and that of what was recorded."""

    valid_at: Time | None = Field(None, description="What held then; absent: now.")
    known_at: Time | None = Field(
        None, description="By what was recorded until then; absent: all of it."
    )


class FactsQuery(Moment, Pagination):
    ended: Literal["true", "false"] = Field(
        "false", description="Facts that were over by then as well."
    )


class FactSearchIn(Moment):
    """As the list, and by entity and predicate, which stay out of URLs and logs."""

    model_config = example({"predicate": "home airport", "valid_at": _JAN})

    entity: Entity | None = None
    predicate: Predicate | None = None
    ended: bool = False
    after: str | None = None
    limit: BodyLimit = 50


class FactSourceOut(Out):
    thread: str
    seq: int


def _sources(agent: Agent, found: Iterable[Source | None]) -> list[FactSourceOut]:
    """Tell of sources, their threads as the agent calls them."""
    return [
        FactSourceOut(thread=agent.calls(each.thread), seq=each.seq)
        for each in found
        if each is not None
    ]


class FactOut(Out):
    model_config = example(FACT)

    id: int = Field(description="Of its earliest assertion: the seq of that.")
    entity: str
    predicate: str
    value: str
    valid_from: datetime
    valid_until: datetime | None
    confirmations: int = Field(description="Assertions that it rests on.")
    confidence: float | None = Field(description="The greatest of theirs.")
    cardinality: Cardinality
    closed_by: int | None = Field(
        description="The assertion that ended it, or that of what followed."
    )
    recorded_at: datetime = Field(description="When its earliest assertion was made.")
    sources: list[FactSourceOut] = Field(description="At most 20, oldest first.")

    @classmethod
    def from_line(cls, agent: Agent, found: FactLine) -> FactOut:
        return cls.from_record(found, sources=_sources(agent, found.sources))


class FactsOut(Out):
    model_config = example({"items": [FACT], "next": None})

    items: list[FactOut]
    next: str | None


class AssertionOut(Out):
    model_config = example(_ASSERTION)

    seq: int
    at: datetime
    by: str
    origin: str
    entity: str
    predicate: str
    value: str
    valid_from: datetime
    valid_until: datetime | None
    confidence: float | None
    many: bool
    source: FactSourceOut | None
    retracted_seq: int | None = Field(description="The event that took it back.")
    wrong: bool = Field(description="It was retracted as wrong.")
    counts: bool = Field(description="Facts are derived from it.")

    @classmethod
    def from_line(cls, agent: Agent, found: AssertionLine) -> AssertionOut:
        source = next(iter(_sources(agent, [found.source])), None)
        return cls.from_record(found, source=source)


class FactStoryOut(Out):
    """A fact, and how it is derived."""

    model_config = example(
        {"fact": FACT, "assertions": [_ASSERTION], "rests_on": [7], "timeline": [FACT]}
    )

    fact: FactOut
    assertions: list[AssertionOut] = Field(
        description="Of its entity and predicate, newest first, at most 200."
    )
    rests_on: list[int] = Field(description="Seqs of the assertions it rests on.")
    timeline: list[FactOut] = Field(
        description="All facts of its entity and predicate."
    )

    @classmethod
    def from_story(cls, agent: Agent, found: FactStory) -> FactStoryOut:
        return cls(
            fact=FactOut.from_line(agent, found.fact),
            assertions=[
                AssertionOut.from_line(agent, each) for each in found.assertions
            ],
            rests_on=[*found.rests_on],
            timeline=[FactOut.from_line(agent, each) for each in found.timeline],
        )


class ReviewOut(Out):
    """What was retracted as wrong: models cannot assert these values."""

    model_config = example({"items": [{**_ASSERTION, "wrong": True}]})

    items: list[AssertionOut]


class FactsWrittenOut(Out):
    model_config = example(_WRITTEN)

    subject: UUID
    seq: int = Field(description="The head of the home thread.")
    ids: list[int] = Field(description="Of each assertion that was made.")
