from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path
from pydantic import BaseModel, Field

from memoryhub.api.document.fields import (
    By,
    In,
    LevelNumber,
    Name,
    Out,
    ThreadName,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import PLACE
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.paging.page_conditions import PAGE_REFUSALS, parse_conditions
from memoryhub.api.paging.page_schemas import ENVELOPE, EnvelopeOut
from memoryhub.errors import (
    FaultBudgetError,
    FaultConfidenceError,
    InvalidError,
    NoRoomError,
    PinBudgetError,
    PinnedByLogError,
    PinnedError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.paging.page_commands import (
    EvictPage,
    FaultPage,
    MapPage,
    PageCommand,
    PinPage,
    ReferencePages,
    UnpinPage,
)
from memoryhub.kernel.state.page_events import Reason
from memoryhub.kernel.state.pages import Tier
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.kernel.tools.tools import DEFAULT_LEVEL, LEAST
from memoryhub.services.paging import page_faults
from memoryhub.services.paging import pages as writing
from memoryhub.services.paging.page_faults import RequestedPart

Offset = Annotated[
    int, build_range_check(0, MAX_INTEGER), build_range_schema(0, MAX_INTEGER)
]
PartLimit = Annotated[
    int, build_range_check(LEAST, MAX_INTEGER), build_range_schema(LEAST, MAX_INTEGER)
]

_EFFECTS = {
    "promoted_to_working_set": True,
    "tokens_est": 16,
    "evictions": [],
    "faults_left": 2,
    "fault_tokens_left": 8176,
    "offset": None,
    "next_offset": None,
}


class FaultIn(In):
    model_config = build_example({"level": 2, "reason": "user_requested_recall"})

    level: LevelNumber | None = Field(
        None, description="2 without it; with `offset` or `limit` it is 0."
    )
    offset: Offset | None = Field(
        None, description="Serve a part of FULL: tokens to skip, or a `next_offset`."
    )
    limit: PartLimit | None = Field(
        None, description="Tokens of the part; without it as many as fit."
    )
    reason: Reason = "resolve_reference"
    by: By = "tool"


class MapIn(In):
    model_config = build_example({"level": 0})

    level: LevelNumber = 0
    by: By = "tool"


class ActIn(In):
    model_config = build_example({})

    by: By = "tool"


class ReferenceIn(In):
    model_config = build_example({"how": "cited"})

    how: Literal["cited", "read"] = "read"
    by: By = "tool"


class EffectOut(Out):
    """State of a page after a paging command."""

    model_config = build_example(
        {
            **PLACE,
            "seq": 15,
            "page_id": "fare-rules",
            "tier": "L0",
            "level": 0,
            "pinned": True,
            "evictions": [],
        }
    )

    thread: str
    thread_id: UUID
    seq: int
    page_id: str
    tier: Tier
    level: int | None = Field(description="As it is mapped; null when it is not.")
    pinned: bool
    evictions: list[str]


class EffectsOut(Out):
    promoted_to_working_set: bool
    tokens_est: int
    evictions: list[str]
    faults_left: int
    fault_tokens_left: int
    offset: int | None = Field(description="Of a part that was served, in tokens.")
    next_offset: int | None = Field(
        description="Where the next part begins; null behind the last."
    )


class FaultOut(Out):
    model_config = build_example({"page": ENVELOPE, "effects": _EFFECTS})

    page: EnvelopeOut
    effects: EffectsOut


router = StrictRouter(tags=["pages"])


@router.route(
    "POST",
    "/threads/{thread}/pages/{page_id}/fault",
    needs=auth.WRITE,
    out=FaultOut,
    refusals=[
        *(*CONDITIONAL, *PAGE_REFUSALS),
        *(FaultConfidenceError, FaultBudgetError, NoRoomError),
    ],
)
async def fault(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name], body: FaultIn
) -> HttpResponse:
    """Fetch a page back for the model, at a level or the nearest more faithful one.

    A page that is mapped so already is free. A charged page is whole in the next
    request; what does not fit is refused (409 `no_room`) with the level, or the tokens
    of a part, that fits. A page of any size can be read in parts: `offset` and `limit`
    are tokens of FULL, and `effects.next_offset` is where the next one begins. Beyond
    the faults or tokens of an exchange the refusal has what is left and the levels that
    would fit; the user's next message renews the budget.
    """
    part = None
    if (body.offset, body.limit) != (None, None):
        if body.level:
            raise InvalidError(loc="level", allowed="0 with `offset` or `limit`")
        part = RequestedPart(body.offset or 0, body.limit)
    level = DEFAULT_LEVEL if body.level is None else body.level
    command = FaultPage(
        page_id=page_id, level=0 if part else level, reason=body.reason, by=body.by
    )
    found = await page_faults.fault_page(
        agent=auth.get_caller(request),
        thread=thread,
        command=command,
        part=part,
        preconditions=parse_conditions(request, body),
    )
    out = FaultOut.model_validate(found.to_json())
    return render_answer(out, replayed=found.receipt.replayed)


@router.route(
    "POST",
    "/threads/{thread}/pages/{page_id}/map",
    needs=auth.WRITE,
    out=EffectOut,
    refusals=[*CONDITIONAL, *PAGE_REFUSALS, NoRoomError, PinnedError, PinBudgetError],
)
async def map_page(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name], body: MapIn
) -> HttpResponse:
    """Map a page at a level, or at the most faithful one below that fits."""
    receipt = await writing.map_page(
        agent=auth.get_caller(request),
        thread=thread,
        command=MapPage(page_id=page_id, level=body.level, by=body.by),
        preconditions=parse_conditions(request, body),
    )
    return await _render_effect(receipt, page_id)


@router.route(
    "POST",
    "/threads/{thread}/pages/{page_id}/evict",
    needs=auth.WRITE,
    out=EffectOut,
    refusals=[*CONDITIONAL, *PAGE_REFUSALS, PinnedByLogError, PinnedError],
)
async def evict(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name], body: ActIn
) -> HttpResponse:
    """Move a page one tier down; a page pinned by any rule stays."""
    command = EvictPage(page_id=page_id, by=body.by)
    return await _submit_command(request, thread, command, page_id, body)


@router.route(
    "POST",
    "/threads/{thread}/pages/{page_id}/pin",
    needs=auth.WRITE,
    out=EffectOut,
    refusals=[*CONDITIONAL, *PAGE_REFUSALS, PinBudgetError, NoRoomError],
)
async def pin(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name], body: ActIn
) -> HttpResponse:
    """Keep a page in the working set, mapping it first if need be."""
    command = PinPage(page_id=page_id, by=body.by)
    return await _submit_command(request, thread, command, page_id, body)


@router.route(
    "POST",
    "/threads/{thread}/pages/{page_id}/unpin",
    needs=auth.WRITE,
    out=EffectOut,
    refusals=[*CONDITIONAL, *PAGE_REFUSALS],
)
async def unpin(
    request: HttpRequest, thread: Path[ThreadName], page_id: Path[Name], body: ActIn
) -> HttpResponse:
    """Unpin a page; rules may still hold it."""
    command = UnpinPage(page_id=page_id, by=body.by)
    return await _submit_command(request, thread, command, page_id, body)


@router.route(
    "POST",
    "/threads/{thread}/pages/{page_id}/reference",
    needs=auth.WRITE,
    out=EffectOut,
    refusals=[*CONDITIONAL, *PAGE_REFUSALS],
)
async def reference(
    request: HttpRequest,
    thread: Path[ThreadName],
    page_id: Path[Name],
    body: ReferenceIn,
) -> HttpResponse:
    """Report that a page was used, so that it stays longer."""
    command = ReferencePages(page_ids=(page_id,), how=body.how, by=body.by)
    return await _submit_command(request, thread, command, page_id, body)


async def _submit_command(
    request: HttpRequest,
    thread: str,
    command: PageCommand,
    page_id: str,
    body: BaseModel,
) -> HttpResponse:
    receipt = await writing.submit_command(
        auth.get_caller(request),
        thread,
        command,
        preconditions=parse_conditions(request, body),
    )
    return await _render_effect(receipt, page_id)


async def _render_effect(receipt: OrderReceipt, page_id: str) -> HttpResponse:
    paging = (await writing.get_state_after(receipt)).paging
    frame = paging.frames.get(page_id)
    out = EffectOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        page_id=page_id,
        tier=paging.find_tier(page_id) or "L2",  # type: ignore[arg-type]  # closed words
        level=frame.level if frame else None,
        pinned=page_id in paging.pins,
        evictions=writing.list_evicted(receipt),
    )
    return render_answer(out, replayed=receipt.replayed)
