from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import Field

from memoryhub.api.document.fields import In, Out, ThreadName, build_example
from memoryhub.api.document.memory_fields import Remark
from memoryhub.api.document.samples import AT
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import KEEPING, parse_idempotency, parse_if_match
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.api.memory.newest import NewestNoun
from memoryhub.errors import BadCursorError, InvalidError, SeqUnknownError
from memoryhub.kernel.memory.bookmarks import AddBookmark
from memoryhub.kernel.text import strict_json
from memoryhub.queries.memory import bookmarks
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory

router = StrictRouter(tags=["bookmarks"])
_SAMPLE = {"seq": 43, "at": AT, "slot": 7, "text": "Where the fare was agreed."}


class BookmarkIn(In):
    model_config = build_example({"slot": 7, "text": _SAMPLE["text"]})

    slot: int = Field(ge=0, description="Index of the message.")
    text: Remark = Field(description="The words to find it by.")


class BookmarkOut(Out):
    model_config = build_example(_SAMPLE)

    seq: int
    at: datetime
    slot: int = Field(description="Index of the message.")
    text: str | None = Field(description="The words; null once they were erased.")


NEWEST = NewestNoun(name="bookmarks", kind=list[BookmarkOut], example=_SAMPLE)


class BookmarksOut(Out):
    model_config = build_example({"items": [_SAMPLE], "next": None})

    items: list[BookmarkOut]
    next: str | None


class BookmarksQuery(AsOf, Pagination):
    pass


class BookmarkAddedOut(Out):
    model_config = build_example({"seq": 43})

    seq: int


@router.route(
    "POST",
    "/threads/{thread}/bookmarks",
    needs=auth.WRITE,
    out=BookmarkAddedOut,
    status=(201,),
    refusals=[*KEEPING, InvalidError],
)
async def add(
    request: HttpRequest, thread: Path[ThreadName], body: BookmarkIn
) -> HttpResponse:
    """Put words at a message."""
    text = strict_json.dump_stored(body.text)
    receipt = await working_memory.submit_command(
        agent=auth.get_caller(request),
        thread=thread,
        command=AddBookmark(slot=body.slot, text=text),
        texts=[text],
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    out = BookmarkAddedOut(seq=receipt.seq)
    return render_answer(out, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/bookmarks",
    needs=auth.READ,
    out=BookmarksOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[BookmarksQuery]
) -> HttpResponse:
    """The bookmarks of a thread, now or as of an event."""
    return await read(_list, auth.get_caller(request), thread, query)


def _list(agent: Agent, name: str, query: BookmarksQuery) -> HttpResponse:
    thread = get_agent_thread(agent, name)
    found = bookmarks.list_bookmarks(
        thread, seq=get_seq(thread, query), after=query.after, limit=query.limit
    )
    items = [
        BookmarkOut(seq=each.seq, at=each.at, slot=each.slot, text=each.text)
        for each in found.items
    ]
    return render_answer(BookmarksOut(items=items, next=found.next))
