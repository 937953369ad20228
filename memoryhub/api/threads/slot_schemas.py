"""Slots on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import (
    MAX_BATCH,
    Bound,
    In,
    Limit,
    Name,
    Out,
    RefusedError,
    SentTokens,
    SlotType,
    Text,
    Time,
    Turn,
    example,
)
from memoryhub.api.document.samples import AT, SLOT_IN, THREAD_ID
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http.operations import StrictRouter
from memoryhub.kernel.commands import Handler, NewSlot
from memoryhub.kernel.levels import tokens
from memoryhub.kernel.state.events import Role
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.queries.threads.slots import SlotLine

router = StrictRouter(tags=["slots"])


_APPENDED = {
    "thread": "booking:204",
    "thread_id": THREAD_ID,
    "seq": 3,
    "index": 1,
    "turn": 0,
    "at": AT,
    "page_id": "slot-1",
    "mapped": True,
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
    "handler": _HANDLER,
}


class HandlerIn(In):
    """What the receiving handler was told with the message."""

    own_name: Name | None = None
    is_self_call: bool | None = None
    usage_instructions: Text = ""
    todo_nudge: Text = ""


def _handler(handler: HandlerIn | None) -> HandlerIn | None:
    if handler and handler.is_self_call is not None and handler.own_name is None:
        raise RefusedError(
            "value", allowed="null where `own_name` is absent", loc=("is_self_call",)
        )
    return handler


class SlotIn(In):
    model_config = example(SLOT_IN)

    from_name: Name = Field(alias="from")
    to_name: Name = Field(alias="to")
    type: SlotType
    content: Any = Field(description="Any JSON; kept by value with its key order.")
    role: Role | None = None
    tokens: SentTokens = Field(None, description="At most the content's bytes.")
    agent_at: Time | None = None
    handler: Annotated[HandlerIn | None, AfterValidator(_handler)] = None

    def new(self) -> NewSlot:
        count = self.tokens
        if count is None:
            count = tokens.estimate(tokens.text_of(self.content))
        slot = NewSlot(
            from_name=self.from_name,
            to_name=self.to_name,
            type=self.type,
            content=strict_json.as_sent(self.content),
            tokens=count,
            counted_by=tokens.EST.name if self.tokens is None else None,
            role=self.role,
            agent_at=self.agent_at,
            handler=Handler(**self.handler.model_dump()) if self.handler else None,
        )
        return measuring.of_slot(slot, self.content)


def _batch(items: list[SlotIn]) -> list[SlotIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise RefusedError("batch_size")
    return items


class SlotsIn(In):
    model_config = example({"items": [SLOT_IN]})

    items: Annotated[
        list[SlotIn],
        AfterValidator(_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class AppendedOut(Out):
    model_config = example(_APPENDED)

    thread: str
    thread_id: UUID
    seq: int
    index: int
    turn: int
    at: datetime
    page_id: str
    mapped: bool = Field(description="Whether the model is shown it for now.")


class AppendedBatchOut(Out):
    model_config = example({"items": [_APPENDED]})

    items: list[AppendedOut]


class HandlerOut(Out):
    own_name: str | None
    is_self_call: bool | None
    usage_instructions: str
    todo_nudge: str


class SlotOut(Out):
    model_config = example(_SLOT)

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
    content: Any
    handler: HandlerOut

    @classmethod
    def of(cls, name: str, line: SlotLine) -> SlotOut:
        return cls.from_record(line, thread=name, thread_id=line.home, handler=line)


class HandlerViewOut(Out):
    """A slot as its receiving handler is given it."""

    model_config = example(
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
    def of(cls, name: str, line: SlotLine) -> HandlerViewOut:
        return cls.from_record(line, thread=name)


class SlotsOut(Out):
    model_config = example({"items": [_SLOT], "next": None})

    items: list[SlotOut]
    next: str | None


class MessagesOut(Out):
    model_config = example({"items": [_SLOT]})

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
    content: Literal["full", "none"] = "full"


class SlotQuery(AsOf):
    view: Literal["slot", "handler"] = "slot"
