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

from memoryhub.api.document.fields import Out, ThreadName, build_example
from memoryhub.api.document.samples import AT, SLOT_IN
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth, limits, streams
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.api.http.streams import Subscription, read_next_part
from memoryhub.errors import BadCursorError, InvalidError, Refusal, SeqUnknownError
from memoryhub.queries.replay import exact_json
from memoryhub.queries.threads.events import ThreadEventLine, list_part
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

router = StrictRouter(tags=["events"])

HEARTBEAT_SECONDS = 15.0
#: Seconds after which a stream checks its key again.
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
    model_config = build_example({"items": [_EVENT], "next": "2"})

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
    """List a thread's journal, oldest first.

    A part ends early at about 4 MiB of content; `next` goes on after it.

    With `Accept: text/event-stream` it is followed: `id` is the seq, a stream is
    resumed by `Last-Event-ID`, and a comment is sent every 15 s. A stream takes neither
    `at_seq` nor `at_turn`.
    """
    agent = auth.get_caller(request)
    if _is_stream_request(request):
        return await _stream_events(request, agent, thread, query)
    return await read(_list_events, agent, thread, query)


def _is_stream_request(request: HttpRequest) -> bool:
    accepted = request.META.get("HTTP_ACCEPT", "")
    return request.method == "GET" and "text/event-stream" in accepted.lower()


def _list_events(agent: Agent, name: str, query: EventsQuery) -> HttpResponse:
    thread = get_agent_thread(agent, name)
    up_to = get_seq(thread, query)
    part = list_part(
        thread,
        after=_parse_after(query.after),
        up_to=thread.head_seq if up_to is None else up_to,
        limit=query.limit,
        content=query.content == "full",
    )
    # Rendered in the reader's thread, which keeps the event loop free.
    return render_answer(
        EventsOut(
            items=[EventOut.model_validate(line) for line in part.items],
            next=str(part.items[-1].seq) if part.more else None,
        )
    )


def _parse_after(text: str | None) -> int:
    """Parse the seq after which a list goes on; None is 0. Raises BadCursorError."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadCursorError
    return int(text)


async def _stream_events(
    request: HttpRequest, agent: Agent, name: str, query: EventsQuery
) -> StreamingHttpResponse:
    for name_of, moment in (("at_seq", query.at_seq), ("at_turn", query.at_turn)):
        if moment is not None:
            # A stream goes on to the present and cannot be as of a moment.
            raise InvalidError(loc=name_of)
    # Checked here, before the answer's status is sent.
    limits.require_stream(agent)
    after = _parse_after(request.META.get("HTTP_LAST_EVENT_ID") or query.after)
    thread = await read(get_agent_thread, agent, name)
    subscription = Subscription(agent=agent, name=name, content=query.content == "full")
    sent = _iter_chunks(request, subscription, thread.id, after)
    # Without this header a proxy (nginx) would delay events to fill a buffer.
    headers = {"X-Accel-Buffering": "no"}
    return StreamingHttpResponse(
        sent, content_type="text/event-stream", headers=headers
    )


async def _iter_chunks(
    request: HttpRequest, subscription: Subscription, thread: UUID, after: int
) -> AsyncIterator[bytes]:
    """Yield the events after a seq while the client stays and its key is valid."""
    spoken = checked = time.monotonic()
    with (
        suppress(Refusal),
        limits.hold_stream(subscription.agent),
        streams.lookout.follow(thread) as follower,
    ):
        yield b": following\n\n"
        while True:
            if time.monotonic() - checked >= RECHECK_SECONDS:
                checked = time.monotonic()
                if await auth.find_holder(auth.find_sent_key(request)) is None:
                    return
            part = await read(read_next_part, subscription, after, render=_render_chunk)
            for seq, chunk in part.chunks:
                limits.charge(subscription.agent, len(chunk))
                yield chunk
                after, spoken = seq, time.monotonic()
            if time.monotonic() - spoken >= HEARTBEAT_SECONDS:
                spoken = time.monotonic()
                yield b": here\n\n"
            if part.more:
                # The server asks for the next chunk, even an empty one, only when the
                # client has taken the last: until then the next part is not read.
                yield b""
            else:
                await streams.wait_for_bell(follower.bell, seconds=RECHECK_SECONDS)


def _render_chunk(line: ThreadEventLine) -> bytes:
    """Render one event as a server-sent event (HTML standard, section 9.2)."""
    data = exact_json.dump_line(EventOut.model_validate(line).model_dump())
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.seq, line.type.encode(), data)
