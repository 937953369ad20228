"""Turns and their requests on the wire."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

import orjson
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from memoryhub.api.document.fields import (
    In,
    Out,
    RefusedError,
    counted,
    example,
    whole,
    within,
)
from memoryhub.api.document.samples import AT, PLACE, REQUEST, THREAD_ID, THREAD_NAME
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.paging.page_schemas import By
from memoryhub.api.threads.slot_schemas import SlotIn
from memoryhub.api.turns.own_tools import Tools
from memoryhub.kernel.state.paging_config import ESTIMATED, RANGES, Format, Mode
from memoryhub.queries.turns.turns import Began, TurnLine

MAX_SLOTS = 20
MOST_TOKENS = int(RANGES["budget_tokens"][1])


_ITEMS = {"slots": "items"}


_PACKED = {
    "turn": 3,
    "seq": 17,
    "request": REQUEST,
    "sha256": hashlib.sha256(orjson.dumps(REQUEST)).hexdigest(),
    "tokens": 131,
    "tokenizer": "est/1",
    "included": ["system-prompt", "slot-5"],
    "cut": [{"page_id": "slot-4", "tokens": 1200, "shown_tokens": 485}],
    "omitted": ["fare-rules"],
}
_TURN = {
    "turn": 3,
    "thread_id": THREAD_ID,
    "inherited": False,
    "seq": 16,
    "at": AT,
    "mode": "strict",
    "continues": False,
    "over_budget": False,
    "recorded": True,
    "packed_seq": 17,
    "packer": "pack/2",
    "rules": "strict/3",
    "budget": 128000,
    "tokens": 131,
    "tokenizer": "est/1",
    "bytes": 612,
    "prefix_tokens": 90,
    "pages": 2,
    "counts": {"hits": 1},
}


def _slots(items: list[SlotIn]) -> list[SlotIn]:
    if len(items) > MAX_SLOTS:
        raise RefusedError("batch_size")
    return items


TokenBudget = Annotated[int, within(1, MOST_TOKENS), counted(1, MOST_TOKENS)]
BudgetQuery = Annotated[
    int,
    BeforeValidator(whole("value", low=1, high=MOST_TOKENS)),
    counted(1, MOST_TOKENS),
]
#: Packed already: it goes into the answer byte for byte.
Request = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": {"type": "object"}},
                "input": {"type": "array", "items": {"type": "object"}},
                "system": {"type": "string"},
                "tools": {"type": "array", "items": {"type": "object"}},
            },
        }
    ),
]


class TurnIn(In):
    """A model call that begins, with the messages that came since the one before."""

    model_config = example(
        {
            "items": [
                {
                    "from": "user",
                    "to": "assistant",
                    "type": "chat.user",
                    "content": {"role": "user", "content": "Is seat 12A free?"},
                }
            ]
        }
    )

    mode: Mode | None = None
    items: Annotated[
        list[SlotIn],
        AfterValidator(_slots),
        Field(
            json_schema_extra={"maxItems": MAX_SLOTS},
            description="The messages; `slots` is taken for it as well.",
        ),
    ] = []
    continues: bool | None = Field(
        None, description="Absent: true when no user message came since the last turn."
    )
    token_budget: TokenBudget | None = Field(
        None, description="A smaller budget, for this request only."
    )
    tools: Tools | None = Field(
        None,
        description="The agent's own, as PUT …/tools sets them; absent: no change.",
    )
    by: By = "tool"

    @model_validator(mode="before")
    @classmethod
    def by_either_name(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Take `slots` for `items`, in its place: a refusal counts the members."""
        if "slots" not in body:
            return body
        if "items" in body:
            says = "nothing beside `items`, which it is another name for"
            raise RefusedError("value", allowed=says, loc=("slots",))
        renamed = {_ITEMS.get(name, name): body[name] for name in body}
        body.clear()
        body.update(renamed)
        return body


class CutOut(Out):
    """A text of which the request shows only the beginning."""

    page_id: str
    tokens: int = Field(description="Of the whole text, at the level that is shown.")
    shown_tokens: int = Field(description="Of what the request shows of it.")


class TurnOut(Out):
    model_config = example({**PLACE, **_PACKED})

    thread: str
    thread_id: UUID
    turn: int
    seq: int
    request: Request = Field(description="What to send to the model; hashed as it is.")
    sha256: str
    tokens: int
    tokenizer: str = Field(description="Who counted `tokens`.")
    included: list[str]
    cut: list[CutOut]
    omitted: list[str]


class ContextOut(Out):
    """What a model call would be given now, or was."""

    model_config = example({"thread": THREAD_NAME, "verified": True, **_PACKED})

    thread: str
    turn: int
    seq: int
    request: Request
    sha256: str | None = Field(description="Null in a format that was not recorded.")
    verified: bool
    tokens: int
    tokenizer: str = Field(description="Who counted `tokens`.")
    included: list[str]
    cut: list[CutOut]
    omitted: list[str]


#: Of a turn's request; null while none is recorded.
_OF_ITS_REQUEST = ("packer", "rules", "budget", "tokens", "bytes", "prefix_tokens")


class TurnLineOut(Out):
    model_config = example(_TURN)

    turn: int
    thread_id: UUID = Field(description="Whose journal has it: an ancestor's, maybe.")
    inherited: bool
    seq: int
    at: datetime
    mode: Mode | None
    continues: bool
    over_budget: bool
    recorded: bool
    packed_seq: int | None
    packer: str | None
    rules: str | None
    budget: int | None
    tokens: int | None
    tokenizer: str | None = Field(description="Who counted `tokens`.")
    bytes: int | None
    prefix_tokens: int | None = Field(
        description="In common with the request before, from its first byte on."
    )
    pages: int
    counts: dict[str, int] = Field(description="Of paging; none while it goes on.")

    @classmethod
    def of(cls, began: Began, line: TurnLine) -> Self:
        packed = line.packed
        return cls.from_record(
            line,
            turn=line.n,
            thread_id=line.home,
            at=began.at,
            mode=began.mode,
            continues=began.continues,
            over_budget=began.over_budget,
            recorded=packed is not None,
            tokenizer=(packed.tokenizer or ESTIMATED) if packed else None,
            counts=dict(line.moved),
            **{name: getattr(packed, name, None) for name in _OF_ITS_REQUEST},
        )


class TurnsOut(Out):
    model_config = example({"items": [_TURN], "next": None})

    items: list[TurnLineOut]
    next: str | None


class TurnsQuery(AsOf, Pagination):
    pass


class ContextQuery(AsOf):
    mode: Mode | None = None
    token_budget: BudgetQuery | None = None


class AgainQuery(In):
    format: Format | None = Field(
        None, description="Another API's than the one it was handed out for."
    )
