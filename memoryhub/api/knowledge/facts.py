from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
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
    FieldRefusedError,
    Id,
    In,
    Out,
    ThreadName,
    Time,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import AT, SUBJECT_ID, THREAD_NAME
from memoryhub.api.document.schemas import Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import render_answer
from memoryhub.api.http.preconditions import KEEPING, parse_idempotency, parse_if_match
from memoryhub.api.http.reading import GONE, get_agent_subject
from memoryhub.api.http.subject_routes import Place, SubjectRouter
from memoryhub.errors import (
    BadCursorError,
    FactUnknownError,
    StaleError,
    SubjectFullError,
    TimelineFullError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.commands import Command
from memoryhub.kernel.knowledge.facts import (
    LINE_PATTERN,
    LINES_PATTERN,
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    AssertFacts,
    FactAsserted,
    NewFact,
    is_valid_text,
)
from memoryhub.kernel.state.knowledge import Cardinality
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import (
    AssertionLine,
    AssertionSource,
    FactFilter,
    FactLine,
    FactStory,
)
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import facts as writing
from memoryhub.services.knowledge import homes

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
ASSERTION: Final[dict[str, Any]] = {
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
_WRITTEN: Final = {"subject": SUBJECT_ID, "seq": 7, "ids": [7], "without_effect": []}


def _build_text_check(most: int, *, lines: bool = False) -> AfterValidator:
    """Build a check of a text that is not blank; a one-line text has no control
    characters."""

    def check(text: str) -> str:
        if not is_valid_text(text, most, lines=lines):
            raise FieldRefusedError("value")
        return text

    return AfterValidator(check)


def _build_text_schema(most: int, *, lines: bool = False) -> WithJsonSchema:
    pattern = LINES_PATTERN if lines else LINE_PATTERN
    return WithJsonSchema({"type": "string", "maxLength": most, "pattern": pattern})


def _check_confidence(number: float) -> float:
    if not 0 <= number <= 1:
        raise FieldRefusedError("value")
    return float(number)


Entity = Annotated[str, _build_text_check(MAX_ENTITY), _build_text_schema(MAX_ENTITY)]
Predicate = Annotated[
    str, _build_text_check(MAX_PREDICATE), _build_text_schema(MAX_PREDICATE)
]
Value = Annotated[
    str,
    _build_text_check(MAX_VALUE, lines=True),
    _build_text_schema(MAX_VALUE, lines=True),
]
Confidence = Annotated[
    StrictFloat | StrictInt,
    AfterValidator(_check_confidence),
    Field(json_schema_extra={"minimum": 0, "maximum": 1}),
]


class SourceIn(In):
    """A message, a page or a note of the subject's thread."""

    thread: ThreadName
    seq: Annotated[int, build_range_check(1, 2**53), build_range_schema(1, 2**53)]


class FactIn(In):
    model_config = build_example(_FACT_IN)

    entity: Entity = Field(description="Who or what it is about.")
    predicate: Predicate = Field(description="What about it.")
    value: Value = Field(description="What is claimed.")
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
            raise FieldRefusedError("value", allowed=says, loc=("valid_until",))
        return self


def _check_batch(items: list[FactIn]) -> list[FactIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise FieldRefusedError("batch_size")
    return items


class FactsIn(In):
    model_config = build_example({"items": [_FACT_IN]})

    items: Annotated[
        list[FactIn],
        AfterValidator(_check_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class EndIn(In):
    model_config = build_example({"at": _FEB})

    at: Time = Field(description="When it ceased to hold.")
    origin: Literal["agent", "model"] = "agent"


class RetractIn(In):
    model_config = build_example({"reason": "wrong"})

    reason: Literal["wrong", "duplicate", "withdrawn"]
    whole: bool = Field(
        default=True, description="All that the fact rests on, or this one assertion."
    )


class TimelineIn(In):
    model_config = build_example(
        {"entity": "user", "predicate": "home airport", "cardinality": "single"}
    )

    entity: Entity
    predicate: Predicate
    cardinality: Cardinality | None = Field(description="Null takes it back.")


class Moment(In):
    """Valid time and recorded time to answer as of."""

    valid_at: Time | None = Field(None, description="What held then; absent: now.")
    known_at: Time | None = Field(
        None, description="By what was recorded until then; absent: all."
    )


class FactsQuery(Moment, Pagination):
    ended: Literal["true", "false"] = Field(
        "false", description="Facts that were over by then as well."
    )


class FactSearchIn(Moment):
    """Filters of the list and names, kept out of URLs and logs."""

    model_config = build_example({"predicate": "home airport", "valid_at": _JAN})

    entity: Entity | None = None
    predicate: Predicate | None = None
    ended: bool = False
    after: str | None = None
    limit: BodyLimit = 50


class FactSourceOut(Out):
    thread: str
    seq: int


def _build_sources(
    agent: Agent, found: Iterable[AssertionSource | None]
) -> list[FactSourceOut]:
    """Build answers of sources, with threads named as the agent names them."""
    return [
        FactSourceOut(thread=agent.get_thread_name(each.thread), seq=each.seq)
        for each in found
        if each is not None
    ]


class FactOut(Out):
    model_config = build_example(FACT)

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
        description="The assertion that ended it, or of what followed."
    )
    recorded_at: datetime = Field(description="When its earliest assertion was made.")
    sources: list[FactSourceOut] = Field(description="At most 20, oldest first.")

    @classmethod
    def from_line(cls, agent: Agent, found: FactLine) -> FactOut:
        return cls.from_record(found, sources=_build_sources(agent, found.sources))


class FactsOut(Out):
    model_config = build_example({"items": [FACT], "next": None})

    items: list[FactOut]
    next: str | None


class AssertionOut(Out):
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
        source = next(iter(_build_sources(agent, [found.source])), None)
        return cls.from_record(found, source=source)


class FactStoryOut(Out):
    """A fact and its derivation."""

    model_config = build_example(
        {"fact": FACT, "assertions": [ASSERTION], "rests_on": [7], "timeline": []}
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
    """Values retracted as wrong: models cannot assert them."""

    model_config = build_example({"items": [{**ASSERTION, "wrong": True}]})

    items: list[AssertionOut]


class FactsWrittenOut(Out):
    model_config = build_example(_WRITTEN)

    subject: UUID
    seq: int = Field(description="The head of the home thread.")
    ids: list[int] = Field(description="Of each assertion that was made.")
    without_effect: list[int] = Field(
        description="Of `ids`: a model's, of values retracted as wrong."
    )


router = SubjectRouter(tags=["facts"])

_LISTS = (*GONE, BadCursorError)
_ADDS = (*KEEPING, SubjectFullError, TimelineFullError)
_EDITS = (*_ADDS, FactUnknownError)

#: Attempts of a change that other writers of the subject's facts overtake.
_ATTEMPTS = 100
_Make = Callable[[Subject], Command]
_Body = FactIn | FactsIn | EndIn | RetractIn | TimelineIn


# Actions are registered first: the plain address below would match them as well.


@router.route_both(
    "POST",
    "/facts:batch",
    needs=auth.WRITE,
    out=FactsWrittenOut,
    status=(201,),
    refusals=_ADDS,
)
async def add_batch(request: HttpRequest, place: Place, body: FactsIn) -> HttpResponse:
    """Assert up to 200 facts of a subject, all or nothing."""
    return await _add_facts(request, place, body)


@router.route(
    "POST",
    "/subjects/{subject}/facts:search",
    needs=auth.READ,
    out=FactsOut,
    refusals=_LISTS,
)
def search(request: HttpRequest, subject: Path[Id], body: FactSearchIn) -> HttpResponse:
    """List facts of an entity, a predicate, or both, in any spelling.

    A POST that changes nothing.
    """
    where = _build_filter(
        body,
        ended=body.ended,
        entity=body.entity,
        predicate=body.predicate,
    )
    return _render_facts(
        auth.get_caller(request), subject, where, after=body.after, limit=body.limit
    )


@router.route(
    "POST",
    "/subjects/{subject}/facts:configure",
    needs=auth.WRITE,
    out=FactsWrittenOut,
    refusals=_ADDS,
)
async def configure(
    request: HttpRequest, subject: Path[Id], body: TimelineIn
) -> HttpResponse:
    """Set whether several values of an entity and predicate hold at once."""

    def build_command(found: Subject) -> Command:
        return writing.build_configuration(
            body.entity, body.predicate, body.cardinality
        )

    return await _render_written(
        await _submit_command(request, subject, body, build_command)
    )


@router.route(
    "GET",
    "/subjects/{subject}/facts:review",
    needs=auth.READ,
    out=ReviewOut,
    refusals=GONE,
)
def review(request: HttpRequest, subject: Path[Id]) -> ReviewOut:
    """List values retracted as wrong, newest first: models cannot assert them."""
    agent = auth.get_caller(request)
    found = facts.list_wrong(get_agent_subject(agent, subject))
    return ReviewOut(items=[AssertionOut.from_line(agent, each) for each in found])


@router.route_both(
    "POST",
    "/facts",
    needs=auth.WRITE,
    out=FactsWrittenOut,
    status=(201,),
    refusals=_ADDS,
)
async def add(request: HttpRequest, place: Place, body: FactIn) -> HttpResponse:
    """Assert a fact of a subject and since when it holds.

    Nothing is overwritten: facts are derived from all assertions.
    """
    return await _add_facts(request, place, body)


@router.route_both(
    "GET",
    "/facts",
    needs=auth.READ,
    out=FactsOut,
    refusals=_LISTS,
)
def list_all(
    request: HttpRequest, place: Place, query: Query[FactsQuery]
) -> HttpResponse:
    """List a subject's facts valid at one time, as known at another."""
    where = _build_filter(query, ended=query.ended == "true")
    return _render_facts(
        auth.get_caller(request), place, where, after=query.after, limit=query.limit
    )


@router.route(
    "POST",
    "/subjects/{subject}/facts/{fact}:end",
    needs=auth.WRITE,
    out=FactsWrittenOut,
    refusals=_EDITS,
)
async def end(
    request: HttpRequest, subject: Path[Id], fact: Path[int], body: EndIn
) -> HttpResponse:
    """End a fact: assert its value with an end of validity."""

    def build_command(found: Subject) -> Command:
        return writing.build_ending(
            found, fact, at=body.at, origin=body.origin, now=clock.now()
        )

    return await _render_written(
        await _submit_command(request, subject, body, build_command, derived=True)
    )


@router.route(
    "POST",
    "/subjects/{subject}/facts/{fact}:retract",
    needs=auth.WRITE,
    out=FactsWrittenOut,
    refusals=_EDITS,
)
async def retract(
    request: HttpRequest, subject: Path[Id], fact: Path[int], body: RetractIn
) -> HttpResponse:
    """Retract a fact or one assertion: facts are derived without it.

    While a value is retracted as `wrong`, a model's assertion of it has no effect.
    """

    def build_command(found: Subject) -> Command:
        return writing.build_retraction(
            found, fact, body.reason, whole=body.whole, now=clock.now()
        )

    return await _render_written(
        await _submit_command(request, subject, body, build_command, derived=True)
    )


@router.route(
    "GET",
    "/subjects/{subject}/facts/{fact}",
    needs=auth.READ,
    out=FactStoryOut,
    refusals=[*GONE, FactUnknownError],
)
def get(
    request: HttpRequest, subject: Path[Id], fact: Path[int], query: Query[Moment]
) -> HttpResponse:
    """Read a fact with its assertions, their sources and its timeline."""
    agent = auth.get_caller(request)
    found = facts.get_fact(
        get_agent_subject(agent, subject),
        fact,
        now=clock.now(),
        valid_at=query.valid_at,
        known_at=query.known_at,
    )
    return render_answer(FactStoryOut.from_story(agent, found))


async def _add_facts(
    request: HttpRequest, place: Place, body: FactIn | FactsIn
) -> HttpResponse:
    agent = auth.get_caller(request)
    claims = [
        (
            NewFact(**each.model_dump(exclude={"source"})),
            AssertionSource(each.source.thread, each.source.seq)
            if each.source
            else None,
        )
        for each in (body.items if isinstance(body, FactsIn) else [body])
    ]

    def build_command(subject: Subject) -> Command:
        return writing.build_assertion(
            subject, claims, now=clock.now(), bound=agent.bound
        )

    return await _render_written(
        await _submit_command(request, place, body, build_command), status=201
    )


def _render_facts(
    agent: Agent, place: Place, where: FactFilter, *, after: str | None, limit: int
) -> HttpResponse:
    subject = get_agent_subject(agent, place)
    found = facts.list_facts(subject, where, after=after, limit=limit)
    items = [FactOut.from_line(agent, each) for each in found.items]
    return render_answer(FactsOut(items=items, next=found.next))


def _build_filter(
    moment: Moment,
    *,
    ended: bool,
    entity: str | None = None,
    predicate: str | None = None,
) -> FactFilter:
    return FactFilter(
        valid_at=moment.valid_at or clock.now(),
        known_at=moment.known_at,
        ended=ended,
        entity=entity,
        predicate=predicate,
    )


async def _submit_command(
    request: HttpRequest,
    place: Place,
    body: _Body,
    make: _Make,
    *,
    derived: bool = False,
) -> OrderReceipt:
    """Submit the command that `make` builds.

    A `derived` command follows from the facts that stand: it is built again if somebody
    else has written meanwhile.
    """
    agent, named = auth.get_caller(request), parse_idempotency(request, body)
    sent = parse_if_match(request)

    def prepare_command() -> tuple[Subject, Command, int | None]:
        subject = get_agent_subject(agent, place)
        home = find_home(subject) if derived and sent is None else None
        head = sent if home is None else home.head_seq
        return subject, homes.build_or_refuse(partial(make, subject), named), head

    for attempt in range(_ATTEMPTS):
        subject, command, head = await read(prepare_command)
        made = command.facts if isinstance(command, AssertFacts) else ()
        try:
            return await homes.submit(
                agent=agent,
                subject=subject,
                command=command,
                texts=[each.payload for each in made],
                if_match=head,
                # Refuses the write if an erasure of the subject came after the read.
                epoch=subject.epoch,
                request=named,
            )
        except StaleError:
            if head == sent or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("no attempt was left")


async def _render_written(receipt: OrderReceipt, *, status: int = 200) -> HttpResponse:
    made = {e.seq: e.event for e in receipt.events if isinstance(e.event, FactAsserted)}
    by_model = [seq for seq, event in made.items() if event.origin == "model"]
    out = FactsWrittenOut(
        subject=receipt.subject,
        seq=receipt.seq,
        ids=[*made],
        without_effect=await read(
            facts.list_without_effect, receipt.thread, by_model, known_at=receipt.seq
        ),
    )
    return render_answer(out, status=status, replayed=receipt.replayed)
