from __future__ import annotations

import hashlib
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Self
from uuid import UUID

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from memoryhub.api.document.fields import (
    By,
    FieldRefusedError,
    In,
    Name,
    Out,
    ThreadName,
    build_example,
    build_integer_reader,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import AT, PLACE, REQUEST, THREAD_ID, THREAD_NAME
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_state, get_agent_thread, get_seq
from memoryhub.api.paging.page_conditions import parse_conditions
from memoryhub.api.threads.slots import SlotIn
from memoryhub.api.turns import own_tools
from memoryhub.api.turns.own_tools import Tools
from memoryhub.errors import (
    BadCursorError,
    BudgetTooSmallError,
    NoRoomError,
    NotRecordedError,
    PageErasedError,
    ProjectFullError,
    SeqUnknownError,
    ThreadFullError,
    TokensRequiredError,
)
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.context.block_lines import CarriedBlock
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.paging.page_commands import RateTurn
from memoryhub.kernel.state.page_events import TurnRated
from memoryhub.kernel.state.paging_config import ESTIMATED, RANGES, Format, Mode
from memoryhub.kernel.text import citations, names
from memoryhub.kernel.turns.turns import carry_blocks
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge.blocks import list_carried
from memoryhub.queries.turns import contexts, turns
from memoryhub.queries.turns.turns import TurnLine, TurnStart
from memoryhub.services.paging import pages
from memoryhub.services.threads.slots import list_unknown_refs
from memoryhub.services.turns import turns as beginning
from memoryhub.services.turns.turns import BegunTurn, NewTurn

#: Most messages of a turn; 11 parallel calls of Responses and their results are 22.
MAX_SLOTS = 128
MOST_TOKENS = int(RANGES["budget_tokens"][1])


_ITEMS = {"slots": "items"}


_PACKED = {
    "turn": 3,
    "seq": 17,
    "request": REQUEST,
    "sha256": hashlib.sha256(orjson.dumps(REQUEST)).hexdigest(),
    "tokens": 31,
    "tokenizer": "est/1",
    "included": ["system-prompt", "slot-5"],
    "cut": [{"page_id": "slot-4", "tokens": 1200, "shown_tokens": 485}],
    "omitted": ["fare-rules"],
    "recall_asked": None,
    "recall_given": 0,
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
    "packer": "pack/3",
    "rules": "strict/3",
    "budget": 128000,
    "tokens": 131,
    "tokenizer": "est/1",
    "bytes": 612,
    "prefix_tokens": 90,
    "pages": 2,
    "counts": {"hits": 1},
}


def _check_slots(items: list[SlotIn]) -> list[SlotIn]:
    if len(items) > MAX_SLOTS:
        raise FieldRefusedError("batch_size")
    return items


TokenBudget = Annotated[
    int, build_range_check(1, MOST_TOKENS), build_range_schema(1, MOST_TOKENS)
]
BudgetQuery = Annotated[
    int,
    BeforeValidator(build_integer_reader("value", low=1, high=MOST_TOKENS)),
    build_range_schema(1, MOST_TOKENS),
]
#: Packed request, inserted into the answer byte for byte.
Request = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": {"type": "object"}},
                "input": {"type": "array", "items": {"type": "object"}},
                "system": {"type": "string"},
                "contents": {"type": "array", "items": {"type": "object"}},
                "systemInstruction": {"type": "object"},
                "tools": {"type": "array", "items": {"type": "object"}},
            },
        }
    ),
]


class TurnIn(In):
    """A new model call, with the messages since the previous one."""

    model_config = build_example(
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
        AfterValidator(_check_slots),
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
        """Rename `slots` to `items` at its position: a refusal counts the members."""
        if "slots" not in body:
            return body
        if "items" in body:
            says = "nothing beside `items`, which it is another name for"
            raise FieldRefusedError("value", allowed=says, loc=("slots",))
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
    model_config = build_example(
        {**PLACE, **_PACKED, "over_budget": False, "unknown_refs": []}
    )

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
    recall_asked: int | None
    recall_given: int
    over_budget: bool
    unknown_refs: list[str]


def _check_cited(cited: list[str]) -> list[str]:
    if len(cited) > citations.IDS:
        raise FieldRefusedError("batch_size")
    return cited


class FeedbackIn(In):
    model_config = build_example({"corrected": False, "cited": ["fare-rules"]})

    corrected: bool | None = None
    cited: Annotated[
        list[Name],
        AfterValidator(_check_cited),
        Field(json_schema_extra={"maxItems": citations.IDS}),
    ] = []
    by: By = "tool"


class FeedbackOut(Out):
    model_config = build_example(
        {
            **PLACE,
            "seq": 18,
            "turn": 3,
            "corrected": False,
            "cited": ["fare-rules"],
            "unknown_refs": [],
        }
    )

    thread: str
    thread_id: UUID
    seq: int
    turn: int
    corrected: bool | None
    cited: list[str]
    unknown_refs: list[str]


class ContextOut(Out):
    """The request of a model call, now or then."""

    model_config = build_example({"thread": THREAD_NAME, "verified": True, **_PACKED})

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
    recall_asked: int | None
    recall_given: int


#: Fields of a turn's request; null until the request is recorded.
_OF_ITS_REQUEST = ("packer", "rules", "budget", "tokens", "bytes", "prefix_tokens")


class TurnLineOut(Out):
    model_config = build_example(_TURN)

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
    def from_line(cls, began: TurnStart, line: TurnLine) -> Self:
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
    model_config = build_example({"items": [_TURN], "next": None})

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


router = StrictRouter(tags=["turns"])

_WRITES = (
    *CONDITIONAL,
    NoRoomError,
    ThreadFullError,
    ProjectFullError,
    TokensRequiredError,
    PageErasedError,
)


@router.route(
    "POST",
    "/threads/{thread}/turns",
    needs=auth.WRITE,
    out=TurnOut,
    status=(201,),
    refusals=_WRITES,
)
async def begin(
    request: HttpRequest, thread: Path[ThreadName], body: TurnIn
) -> HttpResponse:
    """Begin a model call: append new messages and get the request to send.

    `request` is recorded by its parts, and is handed out again byte for byte as long as
    none of it is erased. Makes the thread if the name is new.
    """
    new = [slot.to_new_slot() for slot in body.items]
    begun = await beginning.begin_turn(
        agent=auth.get_caller(request),
        thread=thread,
        new=NewTurn(
            slots=new,
            mode=body.mode,
            continues=body.continues,
            token_budget=body.token_budget,
            tools=own_tools.build_command(body.tools),
            by=body.by,
        ),
        if_match=parse_if_match(request),
        request=parse_idempotency(
            request, body, but={"items": {"__all__": {"handler"}}}
        ),
    )
    return render_answer(
        _build_turn(begun, new), status=201, replayed=begun.receipt.replayed
    )


@router.route(
    "POST",
    "/threads/{thread}/turns/{int:turn}/feedback",
    needs=auth.WRITE,
    out=FeedbackOut,
    refusals=CONDITIONAL,
)
async def rate(
    request: HttpRequest, thread: Path[ThreadName], turn: Path[int], body: FeedbackIn
) -> HttpResponse:
    """Say whether a turn's answer was corrected, and which pages it relied on.

    The last feedback of a turn counts, whole. Cited pages stay longer, as if used.
    """
    command = RateTurn(
        turn=turn, corrected=body.corrected, cited=tuple(body.cited), by=body.by
    )
    receipt = await pages.submit_command(
        auth.get_caller(request),
        thread,
        command,
        preconditions=parse_conditions(request, body),
    )
    rated = receipt.get_event(TurnRated)
    out = FeedbackOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        turn=turn,
        corrected=rated.corrected,
        cited=rated.page_ids,
        unknown_refs=citations.list_unknown(body.cited, rated.page_ids),
    )
    return render_answer(out, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/turns",
    needs=auth.READ,
    out=TurnsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[TurnsQuery]
) -> HttpResponse:
    """List model calls, newest first; a fork's inherited ones after its own."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    batch = turns.list_turns(
        thread_row,
        up_to=get_seq(thread_row, query),
        after=query.after,
        limit=query.limit,
    )
    began = turns.get_starts(batch.items)
    items = [TurnLineOut.from_line(began[line.n], line) for line in batch.items]
    return render_answer(TurnsOut(items=items, next=batch.next))


@router.route(
    "GET",
    "/threads/{thread}/turns/{int:turn}",
    needs=auth.READ,
    out=TurnLineOut,
    refusals=[*GONE],
)
def get(
    request: HttpRequest, thread: Path[ThreadName], turn: Path[int]
) -> HttpResponse:
    """Read a model call: how it began, its request's size, its cost."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    line = turns.get_turn(thread_row, turn)
    began = turns.get_starts([line])
    return render_answer(TurnLineOut.from_line(began[turn], line))


@router.route(
    "GET",
    "/threads/{thread}/turns/{int:turn}/context",
    needs=auth.READ,
    out=ContextOut,
    refusals=[*GONE, NotRecordedError, PageErasedError],
)
def get_context(
    request: HttpRequest,
    thread: Path[ThreadName],
    turn: Path[int],
    query: Query[AgainQuery],
) -> HttpResponse:
    """Reassemble the request of a turn from its recorded parts.

    `verified` says whether its bytes hash to what was handed out; in another format
    there is no hash to compare with.
    """
    shape = query.format
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = contexts.get_recorded_turn(thread_row, turn)
    if shape is not None:
        found = contexts.convert_format(found, shape)
    whole = contexts.reassemble_request(thread_row, found)
    if whole.request is None:
        raise PageErasedError(
            pages=len(whole.missing), page_ids=", ".join(whole.missing[:20])
        )
    out = ContextOut.from_record(
        contexts.list_fates(thread_row, found),
        thread=thread,
        turn=turn,
        seq=found.seq,
        request=orjson.Fragment(whole.request),
        sha256=found.sha256,
        verified=whole.verified,
        tokens=whole.tokens,
        tokenizer=found.record.tokenizer,
        recall_asked=found.record.recall_asked,
        recall_given=found.record.recall_given,
    )
    return render_answer(out)


@router.route(
    "GET",
    "/threads/{thread}/context",
    needs=auth.READ,
    out=ContextOut,
    refusals=[*GONE, SeqUnknownError, NoRoomError, PageErasedError],
)
def preview(
    request: HttpRequest, thread: Path[ThreadName], query: Query[ContextQuery]
) -> HttpResponse:
    """Preview a model call's request without beginning one. Counts nothing.

    A preview as of an earlier event has no blocks: they are the subject's, as of now.
    """
    agent = auth.get_caller(request)
    thread_row, state = get_agent_state(agent, thread, query)
    carried = tuple[CarriedBlock, ...]()
    if state.seq == thread_row.head_seq:
        carried = list_carried(agent.project, thread, bound=agent.bound)
        state = carry_blocks(state, carried)
    options = PackingOptions(
        name=names.remove_subject(thread_row.name, thread_row.subject_id),
        turn=state.turn_count,
        mode=query.mode,
        token_budget=query.token_budget,
        blocks=carried,
        now=clock.now(),
    )
    try:
        before = contexts.find_previous(thread_row, options.turn)
        packed = contexts.pack_request(thread_row, state, options, before=before)
    except TooSmallError as refusal:
        least = refusal.find_least_budget()
        raise BudgetTooSmallError(least_tokens=least) from None
    out = ContextOut.from_record(
        packed,
        thread=thread,
        turn=state.turn_count,
        seq=state.seq,
        request=orjson.Fragment(packed.request),
        verified=True,
        tokenizer=packed.record.tokenizer,
        recall_asked=packed.record.recall_asked,
        recall_given=packed.record.recall_given,
    )
    return render_answer(out)


def _build_turn(begun: BegunTurn, new: list[NewSlot]) -> TurnOut:
    unknown = chain.from_iterable(list_unknown_refs(begun.receipt, new))
    return TurnOut.from_record(
        begun,
        thread=begun.receipt.name,
        thread_id=begun.receipt.thread,
        request=orjson.Fragment(begun.request),
        unknown_refs=[*dict.fromkeys(unknown)][: citations.MOST_NAMED],
    )


# Reads are rendered in the reader's thread, which keeps the event loop free.
