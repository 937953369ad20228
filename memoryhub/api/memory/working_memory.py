from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.api.memory.checkpoint_schemas import CheckpointOut
from memoryhub.api.memory.memory_schemas import MemoryOut, MemoryQuery, MemoryStatsOut
from memoryhub.api.memory.nouns import NEWEST
from memoryhub.errors import SeqUnknownError
from memoryhub.queries.memory.working_memory import get_memory
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

router = StrictRouter(tags=["working memory"])


@router.route(
    "GET",
    "/threads/{thread}/working-memory",
    needs=auth.READ,
    out=MemoryOut,
    refusals=[*GONE, SeqUnknownError],
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[MemoryQuery]
) -> HttpResponse:
    """Task, keys, newest notes and checkpoints at one instant, for a turn's start."""
    return await read(_get, auth.caller(request), thread, query)


def _get(agent: Agent, name: str, query: MemoryQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    found = get_memory(
        thread,
        max_keys=query.keys,
        newest={each.name: getattr(query, each.name) for each in NEWEST},
        seq=seq_of(thread, query),
    )
    out = MemoryOut.from_record(
        found,
        thread=name,
        thread_id=thread.id,
        checkpoints=[CheckpointOut.of(line) for line in found.checkpoints],
        stats=MemoryStatsOut(**found.stats.plain()),
        **found.newest,
    )
    return rendered(out)
