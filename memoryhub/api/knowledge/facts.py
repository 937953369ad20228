from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import Id
from memoryhub.api.http import auth
from memoryhub.api.http.operations import rendered
from memoryhub.api.http.preconditions import KEEPING, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_subject
from memoryhub.api.http.subject_routes import Place, SubjectRouter
from memoryhub.api.knowledge.fact_schemas import (
    AssertionOut,
    EndIn,
    FactIn,
    FactOut,
    FactSearchIn,
    FactsIn,
    FactsOut,
    FactsQuery,
    FactStoryOut,
    FactsWrittenOut,
    Moment,
    RetractIn,
    ReviewOut,
    TimelineIn,
)
from memoryhub.errors import (
    BadCursorError,
    FactUnknownError,
    SubjectFullError,
    TimelineFullError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel.commands import Command
from memoryhub.kernel.knowledge.facts import AssertFacts, FactAsserted
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import facts as writing
from memoryhub.services.knowledge import homes
from memoryhub.services.knowledge.facts import FactDraft, SourceAddress

router = SubjectRouter(tags=["facts"])

_LISTS = (*GONE, BadCursorError)
_ADDS = (*KEEPING, SubjectFullError, TimelineFullError)
_EDITS = (*_ADDS, FactUnknownError)

_Make = Callable[[Subject], Command]
_Body = FactIn | FactsIn | EndIn | RetractIn | TimelineIn


# The actions come first: the plain address below would match theirs as well.


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
    return await _add(request, place, body)


@router.route(
    "POST",
    "/subjects/{subject}/facts:search",
    needs=auth.READ,
    out=FactsOut,
    refusals=_LISTS,
)
async def search(
    request: HttpRequest, subject: Path[Id], body: FactSearchIn
) -> HttpResponse:
    """List facts of an entity, of a predicate, or of both, however they are spelled.

    A POST, so that neither stands in URLs and logs; it changes nothing.
    """
    return await read(_search, auth.caller(request), subject, body)


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
    """Set whether several values of an entity and a predicate hold at once."""

    def made(found: Subject) -> Command:
        return writing.configuration(body.entity, body.predicate, body.cardinality)

    return _written(await _submit(request, subject, body, made))


@router.route(
    "GET",
    "/subjects/{subject}/facts:review",
    needs=auth.READ,
    out=ReviewOut,
    refusals=GONE,
)
async def review(request: HttpRequest, subject: Path[Id]) -> ReviewOut:
    """What was retracted as wrong, newest first: what models may not assert again."""
    return await read(_review, auth.caller(request), subject)


@router.route_both(
    "POST",
    "/facts",
    needs=auth.WRITE,
    out=FactsWrittenOut,
    status=(201,),
    refusals=_ADDS,
)
async def add(request: HttpRequest, place: Place, body: FactIn) -> HttpResponse:
    """Assert a fact of a subject: what holds, and since when.

    Nothing is overwritten: facts are derived from all assertions, whatever their order.
    """
    return await _add(request, place, body)


@router.route_both(
    "GET",
    "/facts",
    needs=auth.READ,
    out=FactsOut,
    refusals=_LISTS,
)
async def list_all(
    request: HttpRequest, place: Place, query: Query[FactsQuery]
) -> HttpResponse:
    """List what holds of a subject at an instant, by what was known at another."""
    return await read(_list, auth.caller(request), place, query)


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
    """Say when a fact ceased to hold: its value asserted with that end."""

    def made(found: Subject) -> Command:
        return writing.ending(
            found, fact, at=body.at, origin=body.origin, now=clock.now()
        )

    return _written(await _submit(request, subject, body, made))


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
    """Take back a fact, or one assertion: what held without it holds again.

    While a value is retracted as `wrong`, what a model asserts of it does not count.
    """

    def made(found: Subject) -> Command:
        return writing.retraction(
            found, fact, body.reason, whole=body.whole, now=clock.now()
        )

    return _written(await _submit(request, subject, body, made))


@router.route(
    "GET",
    "/subjects/{subject}/facts/{fact}",
    needs=auth.READ,
    out=FactStoryOut,
    refusals=[*GONE, FactUnknownError],
)
async def get(
    request: HttpRequest, subject: Path[Id], fact: Path[int], query: Query[Moment]
) -> HttpResponse:
    """A fact with its assertions, their sources, and all facts it stands among."""
    return await read(_get, auth.caller(request), subject, fact, query)


async def _add(
    request: HttpRequest, place: Place, body: FactIn | FactsIn
) -> HttpResponse:
    agent = auth.caller(request)
    drafts = _drafts(body.items if isinstance(body, FactsIn) else [body])

    def made(subject: Subject) -> Command:
        return writing.assertion(subject, drafts, now=clock.now(), bound=agent.bound)

    return _written(await _submit(request, place, body, made), status=201)


def _list(agent: Agent, place: Place, query: FactsQuery) -> HttpResponse:
    where = _filter(query, ended=query.ended == "true")
    return _listed(agent, place, where, after=query.after, limit=query.limit)


def _search(agent: Agent, subject: UUID, body: FactSearchIn) -> HttpResponse:
    where = _filter(
        body,
        ended=body.ended,
        entity=body.entity,
        predicate=body.predicate,
    )
    return _listed(agent, subject, where, after=body.after, limit=body.limit)


def _get(agent: Agent, subject: UUID, fact: int, query: Moment) -> HttpResponse:
    found = facts.get_fact(
        find_subject(agent, subject),
        fact,
        now=clock.now(),
        valid_at=query.valid_at,
        known_at=query.known_at,
    )
    return rendered(FactStoryOut.from_story(agent, found))


def _listed(
    agent: Agent, place: Place, where: FactFilter, *, after: str | None, limit: int
) -> HttpResponse:
    subject = find_subject(agent, place)
    found = facts.list_facts(subject, where, after=after, limit=limit)
    items = [FactOut.from_line(agent, each) for each in found.items]
    return rendered(FactsOut(items=items, next=found.next))


def _filter(
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


def _drafts(items: Sequence[FactIn]) -> list[FactDraft]:
    return [
        FactDraft(
            **each.model_dump(exclude={"source"}),
            source=SourceAddress(each.source.thread, each.source.seq)
            if each.source
            else None,
        )
        for each in items
    ]


async def _submit(
    request: HttpRequest, place: Place, body: _Body, make: _Make
) -> Receipt:
    agent = auth.caller(request)

    def prepared() -> tuple[Subject, Command]:
        subject = find_subject(agent, place)
        return subject, make(subject)

    subject, command = await read(prepared)
    made = command.facts if isinstance(command, AssertFacts) else ()
    return await homes.submit(
        agent=agent,
        subject=subject,
        command=command,
        texts=[each.payload for each in made],
        if_match=if_match(request),
        # What it was made of may have been erased since it was read.
        epoch=subject.epoch,
        request=idempotency(request, body),
    )


def _written(receipt: Receipt, *, status: int = 200) -> HttpResponse:
    ids = [e.seq for e in receipt.events if isinstance(e.event, FactAsserted)]
    out = FactsWrittenOut(subject=receipt.subject, seq=receipt.seq, ids=ids)
    return rendered(out, status=status, replayed=receipt.replayed)


def _review(agent: Agent, subject: UUID) -> ReviewOut:
    found = facts.list_wrong(find_subject(agent, subject))
    return ReviewOut(items=[AssertionOut.from_line(agent, each) for each in found])
