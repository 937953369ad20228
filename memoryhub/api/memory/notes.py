from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import (
    MAX_BATCH,
    FieldRefusedError,
    In,
    Out,
    ThreadName,
    build_example,
)
from memoryhub.api.document.memory_fields import (
    ClearedOut,
    EmptyIn,
    build_size_check,
    build_text_schema,
)
from memoryhub.api.document.samples import AT
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    KEEPING,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.api.memory.newest import NewestNoun
from memoryhub.errors import BadCursorError, ProjectFullError, SeqUnknownError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.notes import (
    AddNotes,
    ClearNotes,
    NewNote,
    NoteAdded,
    NotesCleared,
)
from memoryhub.kernel.text import strict_json
from memoryhub.queries.memory import notes
from memoryhub.services.memory import working_memory

_MAX_BYTES: Final = 16 * 1024
NoteText = Annotated[
    str, build_size_check(_MAX_BYTES, least=1), build_text_schema(_MAX_BYTES, least=1)
]

NOTE = {"seq": 43, "at": AT, "bytes": 64, "text": "The fare allows one free change."}
_ADDED = {"seq": 43, "at": AT, "trimmed": 0}


class NotesQuery(AsOf, Pagination):
    order: Literal["asc", "desc"] = "asc"
    content: Literal["full", "none"] = "full"


class NoteIn(In):
    model_config = build_example({"text": NOTE["text"]})

    text: NoteText


def _check_batch(items: list[NoteIn]) -> list[NoteIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise FieldRefusedError("batch_size")
    return items


class NotesIn(In):
    model_config = build_example({"items": [{"text": NOTE["text"]}]})

    items: Annotated[
        list[NoteIn],
        AfterValidator(_check_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class AddedOut(Out):
    model_config = build_example(_ADDED)

    seq: int
    at: datetime
    trimmed: int = Field(description="Oldest notes that left the scratchpad for it.")


class AddedBatchOut(Out):
    model_config = build_example({"items": [_ADDED]})

    items: list[AddedOut]


class NoteOut(Out):
    seq: int
    at: datetime
    bytes: int
    text: str | None


class NotesOut(Out):
    model_config = build_example({"items": [NOTE], "next": None})

    items: list[NoteOut]
    next: str | None


NEWEST = NewestNoun(
    name="notes", kind=list[NoteOut], example=NOTE, figures={"note_bytes": 32}
)


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
    receipt = await _add_notes(request, thread, body, [body.text])
    (added,) = _build_added(receipt)
    return render_answer(added, status=201, replayed=receipt.replayed)


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
    receipt = await _add_notes(request, thread, body, texts)
    out = AddedBatchOut(items=_build_added(receipt))
    return render_answer(out, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/notes",
    needs=auth.READ,
    out=NotesOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[NotesQuery]
) -> HttpResponse:
    """List notes by number, now or as of an event."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = notes.list_notes(
        thread_row,
        order=query.order,
        content=query.content == "full",
        seq=get_seq(thread_row, query),
        after=query.after,
        limit=query.limit,
    )
    return render_answer(NotesOut.model_validate(found))


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
    receipt = await working_memory.submit_command(
        agent=auth.get_caller(request),
        thread=thread,
        command=ClearNotes(),
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    cleared = sum(event.count for event in receipt.list_events(NotesCleared))
    out = ClearedOut(cleared=cleared, seq=receipt.seq)
    return render_answer(out, replayed=receipt.replayed)


async def _add_notes(
    request: HttpRequest, thread: str, body: NoteIn | NotesIn, texts: list[str]
) -> OrderReceipt:
    new = tuple(
        NewNote(text=strict_json.dump_stored(text), bytes=len(text.encode()))
        for text in texts
    )
    return await working_memory.submit_command(
        agent=auth.get_caller(request),
        thread=thread,
        command=AddNotes(notes=new),
        texts=[note.text for note in new],
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
        born=True,
    )


def _build_added(receipt: OrderReceipt) -> list[AddedOut]:
    return [
        AddedOut(seq=each.seq, at=each.at, trimmed=each.event.trimmed)
        for each in receipt.events
        if isinstance(each.event, NoteAdded)
    ]
