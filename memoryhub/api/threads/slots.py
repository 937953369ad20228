from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter
from django.urls.converters import IntConverter
from ninja import Path, Query
from pydantic import WithJsonSchema

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.api.threads.slot_schemas import (
    AppendedBatchOut,
    AppendedOut,
    HandlerViewOut,
    MessagesOut,
    MessagesQuery,
    SlotIn,
    SlotOut,
    SlotQuery,
    SlotsIn,
    SlotsOut,
    SlotsQuery,
)
from memoryhub.errors import (
    BadCursorError,
    ContentErasedError,
    NoRoomError,
    ProjectFullError,
    SeqUnknownError,
    ThreadFullError,
    TokensRequiredError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.pages import slot_page_id
from memoryhub.queries.lists.cursors import PART_BYTES
from memoryhub.queries.threads.readers import read
from memoryhub.queries.threads.slots import (
    SlotFilter,
    get_slot,
    list_slots,
    newest_messages,
)
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages
from memoryhub.services.threads import slots

router = StrictRouter(tags=["slots"])

_WRITE_REFUSALS = (
    *CONDITIONAL,
    ThreadFullError,
    NoRoomError,
    ProjectFullError,
    TokensRequiredError,
)


class IndexConverter(IntConverter):
    """A whole number in a path, with a minus or without."""

    regex = "-?[0-9]+"


register_converter(IndexConverter, "index")

Index = Annotated[
    int,
    WithJsonSchema(
        {"type": "integer", "description": "From 0; from the end if negative."}
    ),
]


@router.route(
    "POST",
    "/threads/{thread}/slots",
    needs=auth.WRITE,
    out=AppendedOut,
    status=(201,),
    refusals=_WRITE_REFUSALS,
)
async def append(
    request: HttpRequest, thread: Path[ThreadName], body: SlotIn
) -> HttpResponse:
    """Append a message. A 201 means it is on disk, at its index for ever.

    Makes the thread if the name is new. With an Idempotency-Key a repeat writes
    nothing and answers the same; `handler` is not compared, the first one stands.
    """
    receipt = await slots.append(
        agent=auth.caller(request),
        thread=thread,
        slots=[body.new()],
        if_match=if_match(request),
        request=idempotency(request, body, but={"handler"}),
    )
    (made,) = _appended(receipt)
    return rendered(made, status=201, replayed=receipt.replayed)


@router.route(
    "POST",
    "/threads/{thread}/slots:batch",
    needs=auth.WRITE,
    out=AppendedBatchOut,
    status=(201,),
    refusals=_WRITE_REFUSALS,
)
async def append_batch(
    request: HttpRequest, thread: Path[ThreadName], body: SlotsIn
) -> HttpResponse:
    """Append up to 200 messages in order, all or nothing."""
    receipt = await slots.append(
        agent=auth.caller(request),
        thread=thread,
        slots=[item.new() for item in body.items],
        if_match=if_match(request),
        request=idempotency(request, body, but={"items": {"__all__": {"handler"}}}),
    )
    made = AppendedBatchOut(items=_appended(receipt))
    return rendered(made, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/slots",
    needs=auth.READ,
    out=SlotsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[SlotsQuery]
) -> HttpResponse:
    """The slots of a Python slice, narrowed by type, sender, receiver and turn.

    The first part fixes the head: a walk of a live thread neither skips nor repeats.
    A part ends early at about 4 MiB of content; `next` goes on after it.
    """
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/slots/{index:index}",
    needs=auth.READ,
    out=SlotOut | HandlerViewOut,
    refusals=[*GONE, SeqUnknownError, ContentErasedError],
)
async def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    index: Path[Index],
    query: Query[SlotQuery],
) -> HttpResponse:
    """One slot, or with `view=handler` what its receiving handler is given.

    A negative index counts from the end: `slots/-1` is the newest, also as of a seq.
    """
    return await read(_get, auth.caller(request), thread, index, query)


@router.route(
    "GET",
    "/threads/{thread}/messages",
    needs=auth.READ,
    out=MessagesOut,
    refusals=[*GONE, SeqUnknownError],
)
async def list_messages(
    request: HttpRequest, thread: Path[ThreadName], query: Query[MessagesQuery]
) -> HttpResponse:
    """The newest messages of user and assistant, the oldest of them first.

    As many as there are, up to `limit`: what tools and system say is not among them,
    nor what was erased.
    """
    return await read(_list_messages, auth.caller(request), thread, query)


def _appended(receipt: Receipt) -> list[AppendedOut]:
    mapped = pages.mapped(receipt)
    return [
        AppendedOut(
            thread=receipt.name,
            thread_id=receipt.thread,
            seq=each.seq,
            index=each.event.index,
            turn=receipt.turn,
            at=each.at,
            page_id=(page_id := slot_page_id(each.event.index)),
            mapped=mapped.get(page_id, False),
        )
        for each in receipt.events
        if isinstance(each.event, SlotAppended)
    ]


# What is read is rendered where it was read: the event loop has others to serve.


def _list(agent: Agent, name: str, query: SlotsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    batch = list_slots(
        thread,
        start=query.start,
        end=query.end,
        where=SlotFilter(
            type=query.type,
            from_name=query.from_name,
            to_name=query.to_name,
            turn=query.turn,
        ),
        order=query.order,
        content=query.content == "full",
        at_seq=seq_of(thread, query),
        after=query.after,
        limit=query.limit,
        max_bytes=PART_BYTES,
    )
    items = [SlotOut.of(name, line) for line in batch.items]
    return rendered(SlotsOut(items=items, next=batch.next))


def _list_messages(agent: Agent, name: str, query: MessagesQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    found = newest_messages(thread, limit=query.limit, at_seq=seq_of(thread, query))
    return rendered(MessagesOut(items=[SlotOut.of(name, line) for line in found]))


def _get(agent: Agent, name: str, index: int, query: SlotQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    line = get_slot(thread, index, at_seq=seq_of(thread, query))
    if line.erased:
        raise ContentErasedError
    if query.view == "handler":
        return rendered(HandlerViewOut.of(name, line))
    return rendered(SlotOut.of(name, line))
