"""Turns and their requests on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from memoryhub.api.fields import In, Out, RefusedError, whole, within
from memoryhub.api.page_schemas import By
from memoryhub.api.schemas import AsOf, Part
from memoryhub.api.slots import SlotIn
from memoryhub.kernel.paging_config import RANGES, Mode
from memoryhub.queries.turns import Began, TurnLine

MAX_SLOTS = 20
MOST_TOKENS = int(RANGES["budget_tokens"][1])


def _slots(items: list[SlotIn]) -> list[SlotIn]:
    if len(items) > MAX_SLOTS:
        raise RefusedError("batch_size")
    return items


TokenBudget = Annotated[
    int,
    within(1, MOST_TOKENS),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_TOKENS}),
]
BudgetQuery = Annotated[
    int,
    BeforeValidator(whole("value", low=1, high=MOST_TOKENS)),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_TOKENS}),
]
#: Packed already: it goes into the answer byte for byte.
Request = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": {"type": "object"}},
                "tools": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["messages"],
        }
    ),
]


class TurnIn(In):
    """A model call that begins, with the messages that came since the one before."""

    mode: Mode | None = None
    slots: Annotated[
        list[SlotIn],
        AfterValidator(_slots),
        Field(json_schema_extra={"maxItems": MAX_SLOTS}),
    ] = []
    continues: bool | None = Field(
        None, description="Absent: true when no user message came since the last turn."
    )
    token_budget: TokenBudget | None = Field(
        None, description="A smaller budget, for this request only."
    )
    by: By = "tool"


class TurnOut(Out):
    thread: str
    thread_id: UUID
    turn: int
    seq: int
    request: Request = Field(description="What to send to the model; hashed as it is.")
    sha256: str
    tokens: int
    included: list[str]
    cut: list[str]
    omitted: list[str]


class ContextOut(Out):
    """What a model call would be given now, or was."""

    thread: str
    turn: int
    seq: int
    request: Request
    sha256: str
    verified: bool
    tokens: int
    included: list[str]
    cut: list[str]
    omitted: list[str]


class TurnLineOut(Out):
    turn: int
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
    bytes: int | None
    prefix_tokens: int | None = Field(
        description="In common with the request before, from its first byte on."
    )
    pages: int
    counts: dict[str, int] = Field(description="Of paging; none while it goes on.")

    @classmethod
    def of(cls, began: Began, line: TurnLine) -> Self:
        packed = line.packed
        return cls(
            turn=line.n,
            seq=line.seq,
            at=began.at,
            mode=began.mode,  # type: ignore[arg-type]  # closed words
            continues=began.continues,
            over_budget=began.over_budget,
            recorded=packed is not None,
            packed_seq=line.packed_seq,
            packer=packed.packer if packed else None,
            rules=packed.rules if packed else None,
            budget=packed.budget if packed else None,
            tokens=packed.tokens if packed else None,
            bytes=packed.bytes if packed else None,
            prefix_tokens=packed.prefix_tokens if packed else None,
            pages=line.pages,
            counts=dict(line.moved),
        )


class TurnsOut(Out):
    items: list[TurnLineOut]
    next: str | None


class TurnsQuery(AsOf, Part):
    pass


class ContextQuery(AsOf):
    mode: Mode | None = None
    token_budget: BudgetQuery | None = None
