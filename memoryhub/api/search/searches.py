from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from ninja import Path

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import rendered
from memoryhub.api.http.reading import GONE, find_subject, find_thread, seq_of
from memoryhub.api.http.subject_routes import Place, SubjectRouter
from memoryhub.api.search.search_schemas import (
    CutTermOut,
    FoundOut,
    HitOut,
    MatchedOut,
    RecallIn,
    SearchFields,
    ThreadSearchIn,
)
from memoryhub.errors import NotFoundError, SeqUnknownError
from memoryhub.models.subjects import Subject
from memoryhub.queries.search import searching
from memoryhub.queries.search.hits import Hit
from memoryhub.queries.search.searching import SearchResult
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

router = SubjectRouter(tags=["search"])


@router.route(
    "POST",
    "/threads/{thread}/search",
    needs=auth.READ,
    out=FoundOut,
    refusals=[*GONE, SeqUnknownError],
)
async def search(
    request: HttpRequest, thread: Path[ThreadName], body: ThreadSearchIn
) -> HttpResponse:
    """Find what was said in a thread and what it inherits, now or as of an event.

    A POST, so that the words stay out of URLs and logs; it writes nothing. An empty
    list has a `reason`.
    """
    return await read(_search, auth.caller(request), thread, body)


@router.route_both("POST", "/recall", needs=auth.READ, out=FoundOut, refusals=GONE)
async def recall(request: HttpRequest, place: Place, body: RecallIn) -> HttpResponse:
    """Find what is remembered of a subject, in all of its threads."""
    return await read(_recall, auth.caller(request), place, body)


def _search(agent: Agent, name: str, body: ThreadSearchIn) -> HttpResponse:
    thread = find_thread(agent, name)
    found = searching.search_thread(thread, body.request(), seq=seq_of(thread, body))
    return _answer(agent, found, body)


def _recall(agent: Agent, place: Place, body: RecallIn) -> HttpResponse:
    subject = find_subject(agent, place)
    request = body.request()
    filters = request.query.filters
    # By the names that the key has for them.
    named = {
        stored
        for name in filters.threads
        for stored in threads.names_of(name, bound=agent.bound)
    }
    query = replace(request.query, filters=replace(filters, threads=frozenset(named)))
    found = searching.recall(
        subject,
        replace(request, query=query),
        threads=_stored(agent, subject, body.thread),
        exclude=_names(agent, body.exclude_thread),
    )
    return _answer(agent, found, body)


def _stored(agent: Agent, subject: Subject, name: str | None) -> list[str] | None:
    """The thread that is meant. Raises NotFoundError for another subject's."""
    if name is None:
        return None
    found = threads.get_thread(agent.project, name, bound=agent.bound)
    if found.subject_id != subject.id:
        raise NotFoundError
    return [found.name]


def _names(agent: Agent, name: str | None) -> Sequence[str]:
    return () if name is None else threads.names_of(name, bound=agent.bound)


def _answer(agent: Agent, found: SearchResult, body: SearchFields) -> HttpResponse:
    out = FoundOut(
        items=[_hit(agent, hit, explain=body.explain) for hit in found.items],
        total=found.total,
        reason=found.reason,
        degraded=[*found.degraded],  # type: ignore[list-item]  # closed words
        searched=found.searched if body.explain else None,
        cut=[CutTermOut.model_validate(each) for each in found.cut]
        if body.explain
        else None,
    )
    return rendered(out)


def _hit(agent: Agent, hit: Hit, *, explain: bool) -> HitOut:
    return HitOut.from_record(
        hit,
        thread=agent.calls(hit.thread_name),
        excerpt=hit.excerpt.text,
        matches=hit.excerpt.matches,
        why=[MatchedOut.model_validate(each) for each in hit.why] if explain else None,
    )
