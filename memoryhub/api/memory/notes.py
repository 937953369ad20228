from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, KEEPING, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.api.memory.memory_schemas import ClearedOut, EmptyIn
from memoryhub.api.memory.note_schemas import (
    AddedBatchOut,
    AddedOut,
    NoteIn,
    NotesIn,
    NotesOut,
    NotesQuery,
)
from memoryhub.errors import BadCursorError, ProjectFullError, SeqUnknownError
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.notes import (
    AddNotes,
    ClearNotes,
    NewNote,
    NoteAdded,
    NotesCleared,
)
from memoryhub.kernel.text import strict_json
from memoryhub.queries.memory import notes
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory

router = StrictRouter(tags=["notes"])


@router.route(
    "POST",
    "/threads/{thread}/notes",
    needs=auth.WRITE,
    out=AddedOut,
    status=(201,),
    refusals=[*KEEPING, ProjectFullError],
)
async def add(
    request: HttpRequest, thread: Path[ThreadName], body: NoteIn
) -> HttpResponse:
    """Add a line to the scratchpad. Makes the thread if the name is new.

    Beyond `max_notes` the oldest leave the scratchpad; history still has them.
    """
    receipt = await _add(request, thread, body, [body.text])
    (added,) = _added(receipt)
    return rendered(added, status=201, replayed=receipt.replayed)


@router.route(
    "POST",
    "/threads/{thread}/notes:batch",
    needs=auth.WRITE,
    out=AddedBatchOut,
    status=(201,),
    refusals=[*KEEPING, ProjectFullError],
)
async def add_batch(
    request: HttpRequest, thread: Path[ThreadName], body: NotesIn
) -> HttpResponse:
    """Add up to 200 lines in order, all or nothing."""
    texts = [item.text for item in body.items]
    receipt = await _add(request, thread, body, texts)
    out = AddedBatchOut(items=_added(receipt))
    return rendered(out, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/notes",
    needs=auth.READ,
    out=NotesOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[NotesQuery]
) -> HttpResponse:
    """The scratchpad by number, now or as of an event."""
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "POST",
    "/threads/{thread}/notes:clear",
    needs=auth.WRITE,
    out=ClearedOut,
    refusals=CONDITIONAL,
)
async def clear(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Empty the scratchpad; history still has its lines."""
    receipt = await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=ClearNotes(),
        if_match=if_match(request),
        request=idempotency(request, body),
    )
    cleared = sum(event.count for event in receipt.all(NotesCleared))
    out = ClearedOut(cleared=cleared, seq=receipt.seq)
    return rendered(out, replayed=receipt.replayed)


async def _add(
    request: HttpRequest, thread: str, body: NoteIn | NotesIn, texts: list[str]
) -> Receipt:
    new = tuple(
        NewNote(text=strict_json.as_sent(text), bytes=len(text.encode()))
        for text in texts
    )
    return await working_memory.submit(
        agent=auth.caller(request),
        thread=thread,
        command=AddNotes(notes=new),
        texts=[note.text for note in new],
        if_match=if_match(request),
        request=idempotency(request, body),
        born=True,
    )


def _added(receipt: Receipt) -> list[AddedOut]:
    return [
        AddedOut(seq=each.seq, at=each.at, trimmed=each.event.trimmed)
        for each in receipt.events
        if isinstance(each.event, NoteAdded)
    ]


def _list(agent: Agent, name: str, query: NotesQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    found = notes.list_notes(
        thread,
        order=query.order,
        content=query.content == "full",
        seq=seq_of(thread, query),
        after=query.after,
        limit=query.limit,
    )
    return rendered(NotesOut.model_validate(found))
