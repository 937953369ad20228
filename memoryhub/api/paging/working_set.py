from __future__ import annotations

from typing import Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import Field, model_validator

from memoryhub.api.document.fields import (
    By,
    FieldRefusedError,
    In,
    Name,
    Out,
    ThreadName,
    build_example,
)
from memoryhub.api.document.samples import PAGE, PLACE, THREAD_NAME
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.http.reading import GONE, get_agent_state, get_agent_thread, get_seq
from memoryhub.api.paging.page_acts import ActIn
from memoryhub.api.paging.page_conditions import parse_conditions
from memoryhub.api.paging.page_schemas import LevelOut, Rule
from memoryhub.api.paging.paging_schemas import (
    BUDGET,
    BudgetOut,
    CurvesOut,
    MutationsOut,
    MutationsQuery,
    PagingOut,
    PagingTallyOut,
    QualityOut,
    TlbUseOut,
    TurnTallyOut,
    VerdictOut,
)
from memoryhub.errors import BadCursorError, SeqUnknownError
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.paging.page_commands import ClearPrefetch, FlushTlb, InvalidateTlb
from memoryhub.kernel.state.page_events import (
    PrefetchCleared,
    TlbFlushed,
    TlbInvalidated,
)
from memoryhub.kernel.state.pages import Modality, PageEntry, PageType, Tier
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import curves
from memoryhub.queries.paging.paging_metrics import PagingCounts, get_metrics
from memoryhub.queries.paging.residency import Residency, ResidentPage, get_residency
from memoryhub.queries.threads.mutations import MutationFilter, list_mutations
from memoryhub.queries.turns import manifests, prefetch
from memoryhub.queries.turns.qualities import get_quality
from memoryhub.services.paging import pages as writing
from memoryhub.services.turns import foresights

_FRAME = {
    "page_id": "fare-rules",
    "type": "artifact",
    "modality": "text",
    "role": None,
    "version": 1,
    "level": 0,
    "tokens": 24,
    "importance": 0.7,
    "recalled": False,
    "references": 1,
    "cause_seq": 14,
    "cause": "page.created",
    "rule": None,
    "protected_until": None,
    "score": 0.62,
    "terms": [
        {"name": "recency", "value": 1.0, "adds": 0.4},
        {"name": "value", "value": 0.55, "adds": 0.22},
        {"name": "penalty", "value": 0.0, "adds": 0.0},
    ],
    "rank": 1,
}
_HOT = {
    "page_id": "slot-0",
    "type": "transcript",
    "modality": "text",
    "tokens": 12,
    "references": 1,
    "score": 0.31,
    "since_seq": 13,
    "unmapped": False,
    "too_large": False,
}


class TermOut(Out):
    name: str
    value: float
    adds: float


class FrameOut(Out):
    """A page in the context, and why it stays there."""

    page_id: str
    type: PageType
    modality: Modality
    role: str | None
    version: int
    level: int
    tokens: int
    importance: float
    recalled: bool
    references: int
    cause_seq: int | None = Field(description="Null when an ancestor's event did it.")
    cause: str
    rule: Rule | None = Field(description="What pins it.")
    protected_until: int | None = Field(description="The first turn it may leave in.")
    score: float = Field(description="Keep score: the lowest leaves first.")
    terms: list[TermOut]
    rank: int | None = Field(
        description="1 leaves first; null if no eviction takes it."
    )

    @classmethod
    def from_cell(cls, cell: ResidentPage) -> Self:
        why = cell.why
        return cls.from_record(
            cell,
            rule=why.rule or None,
            protected_until=why.protected_until,
            score=why.score,
            terms=why.terms,
            rank=why.rank,
        )


class HotOut(Out):
    """A page that just left the context, or found no room in it."""

    page_id: str
    type: PageType
    modality: Modality
    tokens: int
    references: int
    score: float
    since_seq: int | None
    unmapped: bool = Field(description="It was never mapped.")
    too_large: bool


class WorkingSetOut(Out):
    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "seq": 17,
            "turn": 3,
            "budget": BUDGET,
            "frames": [_FRAME],
            "hot": [_HOT],
            "over_budget": False,
            "thrash_index": 0.0,
        }
    )

    thread: str
    seq: int
    turn: int
    budget: BudgetOut
    frames: list[FrameOut] = Field(description="In the order of the context.")
    hot: list[HotOut] = Field(description="The one most worth keeping first.")
    over_budget: bool
    thrash_index: float

    @classmethod
    def from_residency(cls, name: str, found: Residency) -> Self:
        return cls.from_record(
            found,
            thread=name,
            budget=BudgetOut.from_budget(found.budget),
            frames=[FrameOut.from_cell(cell) for cell in found.cells],
            hot=found.warm,
        )


class TlbEntryOut(Out):
    page_id: str
    version: int
    type: PageType
    modality: Modality
    importance: float
    tier: Tier
    levels: list[LevelOut]

    @classmethod
    def from_entry(cls, state: ThreadState, entry: PageEntry) -> Self:
        tier = state.paging.find_tier(entry.page_id) or entry.home
        return cls.from_record(entry, tier=tier, levels=LevelOut.from_entry(entry))


class TlbOut(TlbUseOut):
    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "seq": 17,
            "size": 512,
            "held": 1,
            "use": 0.001953125,
            "hits": 8,
            "misses": 2,
            "hit_rate": 0.8,
            "items": [
                {
                    **{n: PAGE[n] for n in ("page_id", "version", "type", "modality")},
                    "importance": 0.7,
                    "tier": "L0",
                    "levels": PAGE["levels"],
                }
            ],
        }
    )

    thread: str
    seq: int
    hits: int
    misses: int
    hit_rate: float | None = Field(description="Null before the first look-up.")
    items: list[TlbEntryOut] = Field(description="The newest first.")


class InvalidateIn(In):
    """A page, or all pages of a tier."""

    model_config = build_example({"tier": "L1"})

    page_id: Name | None = None
    tier: Tier | None = None
    by: By = "tool"

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if (self.page_id is None) == (self.tier is None):
            says = "one of `page_id` and `tier`, and not both"
            raise FieldRefusedError("value", allowed=says, loc=("page_id",))
        return self


class DroppedOut(Out):
    model_config = build_example({**PLACE, "seq": 19, "dropped": 6})

    thread: str
    thread_id: UUID
    seq: int
    dropped: int


class ManifestFrameOut(Out):
    page_id: str
    modality: Modality
    level: int
    tokens_est: int
    importance: float


class OfferedOut(Out):
    page_id: str
    modality: Modality
    tier: Tier
    levels: list[int]
    hint: str


class PoliciesOut(Out):
    faults_allowed: bool
    max_faults_per_turn: int
    faults_left: int
    upgrade_budget_tokens: int
    prefer_levels: list[int]


class ReadBeforeOut(Out):
    page_id: str
    reads: int = Field(description="Calls of the tool before which it was read.")


class ToolUseOut(Out):
    tool: str | None = Field(description="Null once the thread does not define it.")
    pages: list[ReadBeforeOut]


class ClaimUseOut(Out):
    page_id: str
    references: int


class PrefetchedOut(Out):
    page_id: str
    why: str = Field(description="`summary`, `claim` or `prerequisite`.")
    level: int


class StayingOut(Out):
    page_id: str
    why: str = Field(description="As in `coming`.")
    reason: prefetch.Reason = Field(description="Why the page stays.")


class PrefetchOut(Out):
    """Pages that the next turn prefetches for any message, or why not."""

    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "turn": 3,
            "tool_uses": [
                {"tool": "refund", "pages": [{"page_id": "fare-rules", "reads": 3}]}
            ],
            "claim_uses": [{"page_id": "seat-12a", "references": 2}],
            "coming": [{"page_id": "fare-rules", "why": "prerequisite", "level": 0}],
            "staying": [{"page_id": "seat-12a", "why": "claim", "reason": "shown"}],
        }
    )

    thread: str
    turn: int
    tool_uses: list[ToolUseOut] = Field(description="As called, the last one first.")
    claim_uses: list[ClaimUseOut] = Field(description="The most used first.")
    coming: list[PrefetchedOut] = Field(description="What comes with the next turn.")
    staying: list[StayingOut] = Field(description="What does not come.")


class PrefetchClearedOut(Out):
    model_config = build_example({**PLACE, "seq": 19, "tools": 2, "pages": 5})

    thread: str
    thread_id: UUID
    seq: int
    tools: int = Field(description="Tools that were known.")
    pages: int = Field(description="Pages of theirs.")


class ManifestOut(Out):
    """Pages that a model can know of; here with every frame."""

    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "turn": 3,
            "mapped": 6,
            "tokenizer": "est/1",
            "working_set": [
                {
                    "page_id": "fare-rules",
                    "modality": "text",
                    "level": 0,
                    "tokens_est": 24,
                    "importance": 0.7,
                }
            ],
            "available_pages": [
                {
                    "page_id": "slot-0",
                    "modality": "text",
                    "tier": "L1",
                    "levels": [0, 1, 2, 3],
                    "hint": "[user] Is seat 12A free?",
                }
            ],
            "omitted": 0,
            "policies": {
                "faults_allowed": True,
                "max_faults_per_turn": 3,
                "faults_left": 3,
                "upgrade_budget_tokens": 8192,
                "prefer_levels": [2, 1, 0],
            },
        }
    )

    thread: str
    turn: int
    mapped: int
    tokenizer: str = Field(description="Who counts `tokens_est`.")
    working_set: list[ManifestFrameOut]
    available_pages: list[OfferedOut]
    omitted: int
    policies: PoliciesOut


router = StrictRouter(tags=["working set"])

_READS = (*GONE, SeqUnknownError)


@router.route(
    "GET",
    "/threads/{thread}/working-set",
    needs=auth.READ,
    out=WorkingSetOut,
    refusals=_READS,
)
def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List the pages in the model's context and why each stays or leaves."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    seq = get_seq(thread_row, query)
    found = get_residency(thread_row, thread_row.head_seq if seq is None else seq)
    return render_answer(WorkingSetOut.from_residency(thread, found))


@router.route(
    "GET", "/threads/{thread}/tlb", needs=auth.READ, out=TlbOut, refusals=_READS
)
def get_tlb(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List the page-table entries looked up last. Reading it counts nothing."""
    _, state = get_agent_state(auth.get_caller(request), thread, query)
    tlb = state.paging.tlb
    out = TlbOut(
        thread=thread,
        seq=state.seq,
        **TlbUseOut.count_entries(state.paging),
        hits=tlb.hits,
        misses=tlb.misses,
        hit_rate=PagingCounts(counts={"hits": tlb.hits, "misses": tlb.misses}).hit_rate,
        items=[
            TlbEntryOut.from_entry(state, entry)
            for entry in tlb.list_oldest_first()[::-1]
        ],
    )
    return render_answer(out)


@router.route(
    "GET", "/threads/{thread}/paging", needs=auth.READ, out=PagingOut, refusals=_READS
)
def get_paging(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """Count look-ups, faults and evictions: total, this turn, by turn."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    found, exchanges = get_metrics(thread_row, state), state.paging.exchanges
    out = PagingOut(
        thread=thread,
        seq=state.seq,
        turn=state.turn_count,
        budget=BudgetOut.from_budget(found.residency.budget),
        pages=state.paging.pages,
        mapped=len(state.paging.frames),
        hot=len(state.paging.hot),
        tlb=TlbUseOut.from_paging(state.paging),
        exchanges=exchanges.begun,
        resident_rate=exchanges.rate,
        resident_rate_in_all=exchanges.rate_in_all,
        total=PagingTallyOut.from_tally(found.total),
        this_turn=PagingTallyOut.from_tally(found.turn),
        turns=[
            TurnTallyOut(
                turn=each.n,
                resident_rate=each.resident_rate,
                counts=PagingTallyOut.from_tally(each.tally),
            )
            for each in found.turns
        ],
        thrash_index=found.residency.thrash_index,
        over_budget=found.residency.over_budget,
        verdict=VerdictOut.model_validate(found.verdict),
        quality=QualityOut.model_validate(get_quality(thread_row, state)),
    )
    return render_answer(out)


@router.route(
    "GET", "/threads/{thread}/curves", needs=auth.READ, out=CurvesOut, refusals=_READS
)
def get_curves(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """Tell what other sizes, policies and budgets would have done to the thread."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    found = curves.get_curves(thread_row, state)
    return render_answer(CurvesOut.from_record(found, thread=thread))


@router.route(
    "GET",
    "/threads/{thread}/manifest",
    needs=auth.READ,
    out=ManifestOut,
    refusals=_READS,
)
def get_manifest(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List the pages that a model can be told of, with all frames."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    return render_answer(
        ManifestOut(**manifests.get_manifest(thread_row, state) | {"thread": thread})
    )


@router.route(
    "GET",
    "/threads/{thread}/prefetch",
    needs=auth.READ,
    out=PrefetchOut,
    refusals=_READS,
)
def get_prefetch(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List the pages that the next turn prefetches, and why others stay.

    The turn is for the user's message that waits, else for an empty one.
    """
    agent = auth.get_caller(request)
    thread_row, state = get_agent_state(agent, thread, query)
    found = foresights.get_prefetch(
        thread_row, state, name=thread, bound=agent.bound
    ) | {"thread": thread}
    return render_answer(PrefetchOut.model_validate(found))


@router.route(
    "POST",
    "/threads/{thread}/prefetch:clear",
    needs=auth.WRITE,
    out=PrefetchClearedOut,
    refusals=CONDITIONAL,
)
async def clear_prefetch(
    request: HttpRequest, thread: Path[ThreadName], body: ActIn
) -> HttpResponse:
    """Forget which pages are read before which tools; later calls are learnt anew."""
    receipt = await writing.submit_command(
        auth.get_caller(request),
        thread,
        ClearPrefetch(by=body.by),
        preconditions=parse_conditions(request, body),
    )
    cleared = receipt.get_event(PrefetchCleared)
    out = PrefetchClearedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        tools=cleared.tools,
        pages=cleared.pages,
    )
    return render_answer(out, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/mutations",
    needs=auth.READ,
    out=MutationsOut,
    refusals=[*_READS, BadCursorError],
)
def mutations(
    request: HttpRequest, thread: Path[ThreadName], query: Query[MutationsQuery]
) -> HttpResponse:
    """List changes of pages, oldest first; of a fork, inherited ones too."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    batch = list_mutations(
        thread_row,
        where=MutationFilter(
            type=query.type, by=query.by, page_id=query.page_id, turn=query.turn
        ),
        at_seq=get_seq(thread_row, query),
        after=query.after,
        limit=query.limit,
    )
    return render_answer(MutationsOut.model_validate(batch))


@router.route(
    "POST",
    "/threads/{thread}/tlb:flush",
    needs=auth.WRITE,
    out=DroppedOut,
    refusals=CONDITIONAL,
)
async def flush_tlb(
    request: HttpRequest, thread: Path[ThreadName], body: ActIn
) -> HttpResponse:
    """Drop every entry; the next look-up reads each anew."""
    receipt = await writing.submit_command(
        auth.get_caller(request),
        thread,
        FlushTlb(by=body.by),
        preconditions=parse_conditions(request, body),
    )
    return _render_dropped(receipt, receipt.get_event(TlbFlushed).dropped)


@router.route(
    "POST",
    "/threads/{thread}/tlb:invalidate",
    needs=auth.WRITE,
    out=DroppedOut,
    refusals=CONDITIONAL,
)
async def invalidate_tlb(
    request: HttpRequest, thread: Path[ThreadName], body: InvalidateIn
) -> HttpResponse:
    """Drop the entry of one page, or of all pages of a tier."""
    receipt = await writing.submit_command(
        auth.get_caller(request),
        thread,
        InvalidateTlb(page_id=body.page_id, tier=body.tier, by=body.by),
        preconditions=parse_conditions(request, body),
    )
    return _render_dropped(receipt, receipt.get_event(TlbInvalidated).dropped)


def _render_dropped(receipt: OrderReceipt, dropped: int) -> HttpResponse:
    out = DroppedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        dropped=dropped,
    )
    return render_answer(out, replayed=receipt.replayed)


# Reads are rendered in the reader's thread, which keeps the event loop free.
