from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Path, Query
from pydantic import Field

from memoryhub.api.document.fields import Out, ThreadName, example
from memoryhub.api.document.samples import AT, SLOT_IN
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth, limits, streams
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.api.http.streams import Subscription, next_part
from memoryhub.errors import BadCursorError, InvalidError, Refusal, SeqUnknownError
from memoryhub.queries.replay import exact_json
from memoryhub.queries.threads.events import EventLine, list_part
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

router = StrictRouter(tags=["events"])

HEARTBEAT_SECONDS = 15.0
#: How long a revoked key may go on following.
RECHECK_SECONDS = 5.0


_EVENT = {
    "seq": 2,
    "at": AT,
    "type": "slot.appended",
    "actor": "agent:Zk3fW0aB",
    "body": {"index": 0, "from": "user", "to": "assistant", "tokens": 12, "bytes": 46},
    "sealed": True,
    "erased": False,
    "payload": {"content": SLOT_IN["content"]},
    "chain": "9f" * 32,
}


class EventsQuery(AsOf, Pagination):
    after: str | None = Field(None, description="Events after this seq.")
    content: Literal["full", "none"] = "full"


class EventOut(Out):
    seq: int
    at: datetime
    type: str
    actor: str
    body: dict[str, Any] = Field(description="By the event's type; never content.")
    sealed: bool
    erased: bool
    payload: Any
    chain: str


class EventsOut(Out):
    model_config = example({"items": [_EVENT], "next": "2"})

    items: list[EventOut]
    next: str | None


@router.route(
    "GET",
    "/threads/{thread}/events",
    needs=auth.READ,
    out=EventsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[EventsQuery]
) -> HttpResponse | StreamingHttpResponse:
    """A thread's journal, oldest first.

    A part ends early at about 4 MiB of content; `next` goes on after it.
    With `Accept: text/event-stream` it is followed: `id` is the seq, a stream is
    resumed by `Last-Event-ID`, and a comment is sent every 15 s. It takes neither
    `at_seq` nor `at_turn`.
    """
    agent = auth.caller(request)
    if _follows(request):
        return await _stream(request, agent, thread, query)
    return await read(_list, agent, thread, query)


def _follows(request: HttpRequest) -> bool:
    accepted = request.META.get("HTTP_ACCEPT", "")
    return request.method == "GET" and "text/event-stream" in accepted.lower()


def _list(agent: Agent, name: str, query: EventsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    up_to = seq_of(thread, query)
    part = list_part(
        thread,
        after=_after(query.after),
        up_to=thread.head_seq if up_to is None else up_to,
        limit=query.limit,
        content=query.content == "full",
    )
    # Rendered here, where it was read: the event loop has others to serve.
    return rendered(
        EventsOut(
            items=[EventOut.model_validate(line) for line in part.items],
            next=str(part.items[-1].seq) if part.more else None,
        )
    )


def _after(text: str | None) -> int:
    """The seq that a list goes on after. Raises BadCursorError."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadCursorError
    return int(text)


async def _stream(
    request: HttpRequest, agent: Agent, name: str, query: EventsQuery
) -> StreamingHttpResponse:
    for name_of, moment in (("at_seq", query.at_seq), ("at_turn", query.at_turn)):
        if moment is not None:
            # What is followed goes on to now, and has no end to be as of.
            raise InvalidError(loc=name_of)
    # Here, while there is still a status to refuse with.
    limits.require_stream(agent)
    after = _after(request.META.get("HTTP_LAST_EVENT_ID") or query.after)
    thread = await read(find_thread, agent, name)
    subscription = Subscription(agent=agent, name=name, content=query.content == "full")
    sent = _followed(request, subscription, thread.id, after)
    # A proxy (nginx) that kept events back to fill a buffer would hold up the agent.
    headers = {"X-Accel-Buffering": "no"}
    return StreamingHttpResponse(
        sent, content_type="text/event-stream", headers=headers
    )


async def _followed(
    request: HttpRequest, subscription: Subscription, thread: UUID, after: int
) -> AsyncIterator[bytes]:
    """The events after a seq, for as long as the client and its key are there."""
    spoken = checked = time.monotonic()
    with (
        suppress(Refusal),
        limits.stream(subscription.agent),
        streams.lookout.follow(thread) as follower,
    ):
        yield b": following\n\n"
        while True:
            if time.monotonic() - checked >= RECHECK_SECONDS:
                checked = time.monotonic()
                if await auth.believed(auth.sent_key(request)) is None:
                    return
            part = await read(next_part, subscription, after, render=_chunk)
            for seq, chunk in part.chunks:
                limits.charge(subscription.agent, len(chunk))
                yield chunk
                after, spoken = seq, time.monotonic()
            if time.monotonic() - spoken >= HEARTBEAT_SECONDS:
                spoken = time.monotonic()
                yield b": here\n\n"
            if part.more:
                # A server takes the next piece, even of nothing, once the client
                # has taken the last: until then the next part is not read.
                yield b""
            else:
                await streams.rung(follower.bell, seconds=RECHECK_SECONDS)


def _chunk(line: EventLine) -> bytes:
    """One event as server-sent events have it (HTML standard, section 9.2)."""
    data = exact_json.line(EventOut.model_validate(line).model_dump())
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.seq, line.type.encode(), data)
