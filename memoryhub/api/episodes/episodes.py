from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import Id
from memoryhub.api.episodes.episode_schemas import (
    EpisodeIn,
    EpisodeOut,
    EpisodesOut,
    EpisodesQuery,
    RememberedOut,
)
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_subject, find_thread
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
from memoryhub.models.server.clock import clock
from memoryhub.queries.episodes.episodes import EpisodeFilter, list_episodes
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import episodes

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
    items = [
        EpisodeOut.from_episode(agent.calls(each.thread.name), each)
        for each in batch.items
    ]
    return rendered(EpisodesOut(items=items, next=batch.next))
