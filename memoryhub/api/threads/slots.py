from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import register_converter
from django.urls.converters import IntConverter
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    MAX_BATCH,
    Bound,
    FieldRefusedError,
    In,
    Limit,
    Name,
    Out,
    SentTokens,
    SlotType,
    Text,
    ThreadName,
    Time,
    Turn,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import AT, SLOT_IN, THREAD_ID
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.errors import (
    BadCursorError,
    ContentErasedError,
    NoRoomError,
    ProjectFullError,
    SeqUnknownError,
    SlotInheritedError,
    ThreadFullError,
    TokensRequiredError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.commands import HandlerContext, NewSlot
from memoryhub.kernel.context import tokens
from memoryhub.kernel.state.events import Role, SlotAppended
from memoryhub.kernel.state.page_events import SlotStruck
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.kernel.threads import measuring
from memoryhub.queries.lists.cursors import PART_BYTES
from memoryhub.queries.threads.slots import (
    SlotFilter,
    SlotLine,
    get_slot,
    list_newest_messages,
    list_slots,
)
from memoryhub.services.paging import pages
from memoryhub.services.threads import slots

_APPENDED = {
    "thread": "booking:204",
    "thread_id": THREAD_ID,
    "seq": 3,
    "index": 1,
    "turn": 0,
    "at": AT,
    "page_id": "slot-1",
    "mapped": True,
    "unknown_refs": [],
}
_HANDLER = {
    "own_name": "assistant",
    "is_self_call": False,
    "usage_instructions": "",
    "todo_nudge": "",
}
_SLOT = {
    **SLOT_IN,
    "thread": "booking:204",
    "thread_id": THREAD_ID,
    "index": 0,
    "seq": 2,
    "at": AT,
    "turn": 0,
    "role": "user",
    "tokens": 12,
    "bytes": 46,
    "agent_at": None,
    "inherited": False,
    "erased": False,
    "struck": False,
    "handler": _HANDLER,
}


class HandlerIn(In):
    """Context that the receiving handler got with the message."""

    own_name: Name | None = None
    is_self_call: bool | None = None
    usage_instructions: Text = ""
    todo_nudge: Text = ""


def _check_handler(handler: HandlerIn | None) -> HandlerIn | None:
    if handler and handler.is_self_call is not None and handler.own_name is None:
        raise FieldRefusedError(
            "value", allowed="null where `own_name` is absent", loc=("is_self_call",)
        )
    return handler


class SlotIn(In):
    model_config = build_example(SLOT_IN)

    from_name: Name = Field(alias="from")
    to_name: Name = Field(alias="to")
    type: SlotType
    content: Any = Field(description="Any JSON; kept by value with its key order.")
    role: Role | None = None
    tokens: SentTokens = Field(
        None, description="At most the content's bytes, but for media."
    )
    agent_at: Time | None = None
    handler: Annotated[HandlerIn | None, AfterValidator(_check_handler)] = None

    def to_new_slot(self) -> NewSlot:
        count = self.tokens
        if count is None:
            count = measuring.count_content_tokens(self.content, tokens.estimate_tokens)
        slot = NewSlot(
            from_name=self.from_name,
            to_name=self.to_name,
            type=self.type,
            content=strict_json.dump_stored(self.content),
            tokens=count,
            counted_by=tokens.EST.name if self.tokens is None else None,
            role=self.role,
            agent_at=self.agent_at,
            handler=HandlerContext(**self.handler.model_dump())
            if self.handler
            else None,
        )
        return measuring.measure_slot(slot, self.content)


def _check_batch(items: list[Any]) -> list[Any]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise FieldRefusedError("batch_size")
    return items


class SlotsIn(In):
    model_config = build_example({"items": [SLOT_IN]})

    items: Annotated[
        list[SlotIn],
        AfterValidator(_check_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class AppendedOut(Out):
    model_config = build_example(_APPENDED)

    thread: str
    thread_id: UUID
    seq: int
    index: int
    turn: int
    at: datetime
    page_id: str
    mapped: bool = Field(description="Whether the model is shown it for now.")
    unknown_refs: list[str]


SlotIndex = Annotated[
    int, build_range_check(0, MAX_INTEGER), build_range_schema(0, MAX_INTEGER)
]


class StrikeIn(In):
    model_config = build_example({"indexes": [1]})

    indexes: Annotated[
        list[SlotIndex],
        AfterValidator(_check_batch),
        Field(
            description="Indexes of the thread's own slots.",
            json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH},
        ),
    ]


class StruckSlotOut(Out):
    index: int
    seq: int


class StruckOut(Out):
    model_config = build_example({"items": [{"index": 1, "seq": 5}]})

    items: list[StruckSlotOut] = Field(
        description="Slots that were not struck before, with their events."
    )


class AppendedBatchOut(Out):
    model_config = build_example({"items": [_APPENDED]})

    items: list[AppendedOut]


class HandlerOut(Out):
    own_name: str | None
    is_self_call: bool | None
    usage_instructions: str
    todo_nudge: str


class SlotOut(Out):
    model_config = build_example(_SLOT)

    thread: str
    thread_id: UUID = Field(description="Whose journal holds it: an ancestor's, maybe.")
    index: int
    seq: int
    at: datetime
    turn: int
    from_name: str = Field(alias="from")
    to_name: str = Field(alias="to")
    type: str
    role: Role | None
    tokens: int
    bytes: int
    agent_at: datetime | None
    inherited: bool
    erased: bool
    struck: bool = Field(description="Lists, requests and searches leave it out.")
    content: Any
    handler: HandlerOut

    @classmethod
    def from_line(cls, name: str, line: SlotLine) -> SlotOut:
        return cls.from_record(line, thread=name, thread_id=line.home, handler=line)


class HandlerViewOut(Out):
    """A slot as its receiving handler gets it."""

    model_config = build_example(
        {
            **{n: _SLOT[n] for n in ("thread", "index", "seq", "at", "from", "to")},
            "type": "chat.user",
            **_HANDLER,
            "content": SLOT_IN["content"],
        }
    )

    thread: str
    index: int
    seq: int
    at: datetime
    from_name: str = Field(alias="from")
    to_name: str = Field(alias="to")
    type: str
    own_name: str | None
    is_self_call: bool | None
    usage_instructions: str
    todo_nudge: str
    content: Any

    @classmethod
    def from_line(cls, name: str, line: SlotLine) -> HandlerViewOut:
        return cls.from_record(line, thread=name)


class SlotsOut(Out):
    model_config = build_example({"items": [_SLOT], "next": None})

    items: list[SlotOut]
    next: str | None


class MessagesOut(Out):
    model_config = build_example({"items": [_SLOT]})

    items: list[SlotOut]


class MessagesQuery(AsOf):
    limit: Limit = 50


class SlotsQuery(AsOf, Pagination):
    start: Bound | None = Field(None, description="As in a Python slice.")
    end: Bound | None = Field(None, description="As in a Python slice.")
    type: SlotType | None = None
    from_name: Name | None = Field(None, alias="from")
    to_name: Name | None = Field(None, alias="to")
    turn: Turn | None = None
    order: Literal["asc", "desc"] = "asc"
    struck: Literal["true", "false"] = Field(
        "false", description="`true`: with struck slots."
    )
    content: Literal["full", "none"] = "full"


class SlotQuery(AsOf):
    view: Literal["slot", "handler"] = "slot"


router = StrictRouter(tags=["slots"])

_WRITE_REFUSALS = (
    *CONDITIONAL,
    ThreadFullError,
    NoRoomError,
    ProjectFullError,
    TokensRequiredError,
)


class IndexConverter(IntConverter):
    """An integer in a path, negative or not."""

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

    Makes the thread if the name is new. With an Idempotency-Key a repeat writes nothing
    and gets the same answer; `handler` is not compared, the first one is kept.
    """
    new = [body.to_new_slot()]
    receipt = await slots.append(
        agent=auth.get_caller(request),
        thread=thread,
        slots=new,
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body, but={"handler"}),
    )
    (made,) = _build_appended(receipt, new)
    return render_answer(made, status=201, replayed=receipt.replayed)


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
    new = [item.to_new_slot() for item in body.items]
    receipt = await slots.append(
        agent=auth.get_caller(request),
        thread=thread,
        slots=new,
        if_match=parse_if_match(request),
        request=parse_idempotency(
            request, body, but={"items": {"__all__": {"handler"}}}
        ),
    )
    made = AppendedBatchOut(items=_build_appended(receipt, new))
    return render_answer(made, status=201, replayed=receipt.replayed)


@router.route(
    "POST",
    "/threads/{thread}/slots:strike",
    needs=auth.WRITE,
    out=StruckOut,
    refusals=[*CONDITIONAL, SlotInheritedError],
)
async def strike(
    request: HttpRequest, thread: Path[ThreadName], body: StrikeIn
) -> HttpResponse:
    """Take messages out of requests, lists and searches. Nothing is erased.

    Replay and `struck=true` still show them. Slots that are struck already are left out
    of the answer, so that of two clients one alone takes a message back.
    """
    receipt = await slots.strike(
        agent=auth.get_caller(request),
        thread=thread,
        indexes=body.indexes,
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    made = [
        StruckSlotOut(index=each.event.index, seq=each.seq)
        for each in receipt.events
        if isinstance(each.event, SlotStruck)
    ]
    return render_answer(StruckOut(items=made), replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/slots",
    needs=auth.READ,
    out=SlotsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[SlotsQuery]
) -> HttpResponse:
    """List slots of a Python slice, filtered by type, sender, receiver and turn.

    The first part fixes the head: a walk of a live thread neither skips nor repeats. A
    part ends early at about 4 MiB of content; `next` goes on after it.
    """
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    batch = list_slots(
        thread_row,
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
        at_seq=get_seq(thread_row, query),
        struck=query.struck == "true",
        after=query.after,
        limit=query.limit,
        max_bytes=PART_BYTES,
    )
    items = [SlotOut.from_line(thread, line) for line in batch.items]
    return render_answer(SlotsOut(items=items, next=batch.next))


@router.route(
    "GET",
    "/threads/{thread}/slots/{index:index}",
    needs=auth.READ,
    out=SlotOut | HandlerViewOut,
    refusals=[*GONE, SeqUnknownError, ContentErasedError],
)
def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    index: Path[Index],
    query: Query[SlotQuery],
) -> HttpResponse:
    """Read a slot, with `view=handler` as its receiving handler gets it.

    A negative index counts from the end: `slots/-1` is the newest, also as of a seq.
    """
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    line = get_slot(thread_row, index, at_seq=get_seq(thread_row, query))
    if line.erased:
        raise ContentErasedError
    if query.view == "handler":
        return render_answer(HandlerViewOut.from_line(thread, line))
    return render_answer(SlotOut.from_line(thread, line))


@router.route(
    "GET",
    "/threads/{thread}/messages",
    needs=auth.READ,
    out=MessagesOut,
    refusals=[*GONE, SeqUnknownError],
)
def list_messages(
    request: HttpRequest, thread: Path[ThreadName], query: Query[MessagesQuery]
) -> HttpResponse:
    """List the newest messages of user and assistant, oldest first.

    Up to `limit` messages; erased and struck messages and those of tools and system are
    left out.
    """
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = list_newest_messages(
        thread_row, limit=query.limit, at_seq=get_seq(thread_row, query)
    )
    return render_answer(
        MessagesOut(items=[SlotOut.from_line(thread, line) for line in found])
    )


def _build_appended(receipt: OrderReceipt, new: list[NewSlot]) -> list[AppendedOut]:
    mapped = pages.map_residency(receipt)
    unknown = iter(slots.list_unknown_refs(receipt, new))
    return [
        AppendedOut(
            thread=receipt.name,
            thread_id=receipt.thread,
            seq=each.seq,
            index=each.event.index,
            turn=receipt.turn,
            at=each.at,
            page_id=(page_id := build_slot_page_id(each.event.index)),
            mapped=mapped.get(page_id, False),
            unknown_refs=next(unknown),
        )
        for each in receipt.events
        if isinstance(each.event, SlotAppended)
    ]


# Reads are rendered in the reader's thread, which keeps the event loop free.
