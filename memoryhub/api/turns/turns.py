from __future__ import annotations

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_state, find_thread, seq_of
from memoryhub.api.turns import own_tools
from memoryhub.api.turns.turn_schemas import (
    AgainQuery,
    ContextOut,
    ContextQuery,
    TurnIn,
    TurnLineOut,
    TurnOut,
    TurnsOut,
    TurnsQuery,
)
from memoryhub.errors import (
    BadCursorError,
    NoRoomError,
    NotRecordedError,
    PageErasedError,
    ProjectFullError,
    SeqUnknownError,
    ThreadFullError,
    TokensRequiredError,
)
from memoryhub.kernel.packing import packing
from memoryhub.kernel.packing.selection import Options
from memoryhub.kernel.state.paging_config import Format
from memoryhub.kernel.text import names
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import contexts, turns
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import turns as beginning
from memoryhub.services.turns.turns import Begun, NewTurn

router = StrictRouter(tags=["turns"])

_WRITES = (
    *CONDITIONAL,
    NoRoomError,
    ThreadFullError,
    ProjectFullError,
    TokensRequiredError,
    PageErasedError,
)


@router.route(
    "POST",
    "/threads/{thread}/turns",
    needs=auth.WRITE,
    out=TurnOut,
    status=(201,),
    refusals=_WRITES,
)
async def begin(
    request: HttpRequest, thread: Path[ThreadName], body: TurnIn
) -> HttpResponse:
    """Begin a model call: append what came since, and take the request to send.

    `request` is recorded by what it is made of, and is handed out again byte for byte
    as long as none of it is erased. Makes the thread if the name is new.
    """
    begun = await beginning.begin(
        agent=auth.caller(request),
        thread=thread,
        new=NewTurn(
            slots=[slot.new() for slot in body.items],
            mode=body.mode,
            continues=body.continues,
            token_budget=body.token_budget,
            tools=own_tools.command(body.tools),
            by=body.by,
        ),
        if_match=if_match(request),
        request=idempotency(request, body, but={"items": {"__all__": {"handler"}}}),
    )
    return rendered(_begun(begun), status=201, replayed=begun.receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/turns",
    needs=auth.READ,
    out=TurnsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[TurnsQuery]
) -> HttpResponse:
    """Model calls, newest first; of a fork, those it inherits after its own."""
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/turns/{int:turn}",
    needs=auth.READ,
    out=TurnLineOut,
    refusals=[*GONE],
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], turn: Path[int]
) -> HttpResponse:
    """One model call: how it began, what its request weighed, what it cost."""
    return await read(_get, auth.caller(request), thread, turn)


@router.route(
    "GET",
    "/threads/{thread}/turns/{int:turn}/context",
    needs=auth.READ,
    out=ContextOut,
    refusals=[*GONE, NotRecordedError, PageErasedError],
)
async def get_context(
    request: HttpRequest,
    thread: Path[ThreadName],
    turn: Path[int],
    query: Query[AgainQuery],
) -> HttpResponse:
    """The request of a turn, put together again from what it was made of.

    `verified` says whether its bytes hash to what was handed out; in another format
    there is nothing to compare them with.
    """
    return await read(_get_context, auth.caller(request), thread, turn, query.format)


@router.route(
    "GET",
    "/threads/{thread}/context",
    needs=auth.READ,
    out=ContextOut,
    refusals=[*GONE, SeqUnknownError, NoRoomError, PageErasedError],
)
async def preview(
    request: HttpRequest, thread: Path[ThreadName], query: Query[ContextQuery]
) -> HttpResponse:
    """What a model call would be given, without beginning one. Counts nothing."""
    return await read(_preview, auth.caller(request), thread, query)


def _begun(begun: Begun) -> TurnOut:
    return TurnOut.from_record(
        begun,
        thread=begun.receipt.name,
        thread_id=begun.receipt.thread,
        request=orjson.Fragment(begun.request),
    )


# What is read is rendered where it was read: the event loop has others to serve.


def _list(agent: Agent, name: str, query: TurnsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    batch = turns.list_turns(
        thread, up_to=seq_of(thread, query), after=query.after, limit=query.limit
    )
    began = turns.how_began(batch.items)
    items = [TurnLineOut.of(began[line.n], line) for line in batch.items]
    return rendered(TurnsOut(items=items, next=batch.next))


def _get(agent: Agent, name: str, turn: int) -> HttpResponse:
    thread = find_thread(agent, name)
    line = turns.get_turn(thread, turn)
    began = turns.how_began([line])
    return rendered(TurnLineOut.of(began[turn], line))


def _get_context(
    agent: Agent, name: str, turn: int, shape: Format | None
) -> HttpResponse:
    thread = find_thread(agent, name)
    found = contexts.recorded(thread, turn)
    if shape is not None:
        found = contexts.otherwise(found, shape)
    whole = contexts.reassemble(thread, found)
    if whole.request is None:
        raise PageErasedError(
            pages=len(whole.missing), page_ids=", ".join(whole.missing[:20])
        )
    out = ContextOut.from_record(
        contexts.fates(thread, found),
        thread=name,
        turn=turn,
        seq=found.seq,
        request=orjson.Fragment(whole.request),
        sha256=found.sha256,
        verified=whole.verified,
        tokens=whole.tokens,
        tokenizer=found.record.tokenizer,
    )
    return rendered(out)


def _preview(agent: Agent, name: str, query: ContextQuery) -> HttpResponse:
    thread, state = find_state(agent, name, query)
    options = Options(
        name=names.called(thread.name, thread.subject_id),
        turn=state.turn_count,
        mode=query.mode,
        token_budget=query.token_budget,
    )
    try:
        before = contexts.before(thread, options.turn)
        packed = contexts.pack(thread, state, options, before=before)
    except packing.TooSmallError:
        raise NoRoomError from None
    out = ContextOut.from_record(
        packed,
        thread=name,
        turn=state.turn_count,
        seq=state.seq,
        request=orjson.Fragment(packed.request),
        verified=True,
        tokenizer=packed.record.tokenizer,
    )
    return rendered(out)
