"""Schemas of paging telemetry: counts, changes of pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field

from memoryhub.api.document.fields import Name, Out, Turn, build_example
from memoryhub.api.document.samples import AT, THREAD_ID, THREAD_NAME
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.paging_config import Policy
from memoryhub.queries.paging.paging_metrics import PagingCounts
from memoryhub.queries.paging.residency import TokenUse

BUDGET = {
    "budget_tokens": 128000,
    "reserved_tokens": 4000,
    "usable_tokens": 124000,
    "used_tokens": 31000,
    "utilization": 0.25,
    "pinned_tokens": 1200,
    "explicit_tokens": 400,
    "protected_tokens": 0,
    "evict_at_tokens": 105400,
    "evict_to_tokens": 86800,
}
_COUNTS = {
    "hits": 8,
    "misses": 2,
    "hit_rate": 0.8,
    "faults": 1,
    "faults_by_reason": {"resolve_reference": 1},
    "faults_by_tier": {"L2": 1},
    "refusals": 0,
    "refusals_by_code": {},
    "referenced": 3,
    "fault_rate": 0.25,
    "refaults": 0,
    "mapped": 2,
    "evictions": 1,
    "evictions_by_cause": {"pressure": 1},
    "lowerings": 0,
    "saved_tokens": 0,
    "recall_brought": {"search": 4},
    "recall_used": {"search": 3},
    "recall_wasted": {},
}
_MUTATION = {
    "thread_id": THREAD_ID,
    "inherited": False,
    "seq": 14,
    "at": AT,
    "type": "create",
    "event": "page.created",
    "actor": "agent:Zk3fW0aB",
    "page_id": "fare-rules",
    "turn": 2,
    "cause": "command",
    "by": "tool",
    "body": {"page_id": "fare-rules", "tokens": 16, "mapped": True},
}


_QUALITY = {
    "recall_success": 1.0,
    "recalls": 1,
    "corrected": 0,
    "effective_tokens": 0.7,
    "cited_tokens": 91,
    "packed_tokens": 131,
    "citations": 2,
    "unknown_citations": 0,
}


class BudgetOut(Out):
    """Use of the budget, in tokens of request lines."""

    budget_tokens: int
    reserved_tokens: int
    usable_tokens: int
    used_tokens: int
    utilization: float
    pinned_tokens: int = Field(description="Of frames that any rule pins.")
    explicit_tokens: int = Field(description="Of pins by command and system prompt.")
    protected_tokens: int
    evict_at_tokens: int
    evict_to_tokens: int

    @classmethod
    def from_budget(cls, budget: TokenUse) -> Self:
        settings = budget.settings
        return cls(
            budget_tokens=settings.budget_tokens,
            reserved_tokens=settings.reserved_tokens,
            usable_tokens=settings.usable,
            used_tokens=budget.used,
            utilization=budget.used / settings.usable,
            pinned_tokens=budget.pinned,
            explicit_tokens=budget.explicit,
            protected_tokens=budget.protected,
            evict_at_tokens=int(settings.high),
            evict_to_tokens=settings.low,
        )


class VerdictOut(Out):
    thrashing: bool
    reasons: list[Literal["refaults", "stuck"]]
    pages: list[str]


class PagingTallyOut(Out):
    """Counts over some time; a rate is null without samples."""

    hits: int
    misses: int
    hit_rate: float | None = Field(
        description="Of the TLB: look-ups answered without the page table."
    )
    faults: int
    faults_by_reason: dict[str, int]
    faults_by_tier: dict[str, int]
    refusals: int
    refusals_by_code: dict[str, int]
    referenced: int
    fault_rate: float | None
    refaults: int
    mapped: int
    evictions: int
    evictions_by_cause: dict[str, int]
    lowerings: int
    saved_tokens: int
    recall_brought: dict[str, int]
    recall_used: dict[str, int]
    recall_wasted: dict[str, int]

    @classmethod
    def from_tally(cls, tally: PagingCounts) -> Self:
        return cls(
            hits=tally.count("hits"),
            misses=tally.count("misses"),
            hit_rate=tally.hit_rate,
            faults=tally.count("faults"),
            faults_by_reason=tally.count_by_suffix("fault.reason."),
            faults_by_tier=tally.count_by_suffix("fault.from."),
            refusals=tally.count("refused"),
            refusals_by_code=tally.count_by_suffix("refused."),
            referenced=tally.count("referenced"),
            fault_rate=tally.fault_rate,
            refaults=tally.count("refaults"),
            mapped=tally.count("mapped"),
            evictions=tally.count("evicted"),
            evictions_by_cause=tally.count_by_suffix("evicted."),
            lowerings=tally.count("lowered"),
            saved_tokens=tally.count("saved_tokens"),
            recall_brought=tally.count_by_suffix("recall.brought."),
            recall_used=tally.count_by_suffix("recall.used."),
            recall_wasted=tally.count_by_suffix("recall.wasted."),
        )


class TurnTallyOut(Out):
    turn: int
    resident_rate: float | None = Field(
        description="Of the last 20 exchanges, as of the turn's end."
    )
    counts: PagingTallyOut


class QualityOut(Out):
    """Quality of memory in the last 20 turns; a rate is null without samples."""

    recall_success: float | None = Field(
        description="Of rated turns for which memory brought pages, those that were "
        "not corrected: above 0.95 is good."
    )
    recalls: int
    corrected: int
    effective_tokens: float | None = Field(
        description="Tokens of cited pages ÷ tokens of the requests: above 0.60 is "
        "good."
    )
    cited_tokens: int
    packed_tokens: int
    citations: int
    unknown_citations: int


class TlbUseOut(Out):
    size: int = Field(description="Entries it may hold.")
    held: int = Field(description="Entries it holds.")
    use: float | None = Field(description="`held` ÷ `size`; null without a size.")

    @classmethod
    def from_paging(cls, paging: Paging) -> Self:
        return cls(**cls.count_entries(paging))

    @staticmethod
    def count_entries(paging: Paging) -> dict[str, Any]:
        """Count the entries of a thread's TLB, as fields."""
        size, held = paging.settings.tlb_entries, len(paging.tlb.held)
        return {"size": size, "held": held, "use": held / size if size else None}


class PagingOut(Out):
    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "seq": 17,
            "turn": 3,
            "budget": BUDGET,
            "pages": 7,
            "mapped": 6,
            "hot": 1,
            "tlb": {"size": 512, "held": 7, "use": 0.013671875},
            "exchanges": 2,
            "resident_rate": 0.5,
            "resident_rate_in_all": 0.5,
            "total": _COUNTS,
            "this_turn": _COUNTS,
            "turns": [],
            "thrash_index": 0.0,
            "over_budget": False,
            "verdict": {"thrashing": False, "reasons": [], "pages": []},
            "quality": _QUALITY,
        }
    )

    thread: str
    seq: int
    turn: int
    budget: BudgetOut
    pages: int
    mapped: int
    hot: int
    tlb: TlbUseOut
    exchanges: int
    resident_rate: float | None = Field(
        description="Exchanges in which nothing was fetched ÷ exchanges, of the last "
        "20: read this first. Null before the first."
    )
    resident_rate_in_all: float | None = Field(
        description="The same of all exchanges of the thread."
    )
    total: PagingTallyOut
    this_turn: PagingTallyOut
    turns: list[TurnTallyOut] = Field(description="The last that are over, new first.")
    thrash_index: float
    over_budget: bool
    verdict: VerdictOut
    quality: QualityOut


class TlbPointOut(Out):
    size: int
    lru: int
    sieve: int
    least: int = Field(description="The fewest that any policy could have (Bélády).")


class PolicyRunOut(Out):
    policy: Policy
    budget_tokens: int
    faults: int
    fault_tokens: int
    evicted: int
    evicted_tokens: int


class CurvesOut(Out):
    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "first_seq": 1,
            "seq": 17,
            "tlb_entries": 512,
            "hits": 8,
            "misses": 2,
            "points": [{"size": 512, "lru": 2, "sieve": 2, "least": 2}],
            "policy": "importance_lru",
            "budget_tokens": 128000,
            "faults": 1,
            "evicted": 1,
            "runs": [
                {
                    "policy": "sieve",
                    "budget_tokens": 256000,
                    "faults": 0,
                    "fault_tokens": 0,
                    "evicted": 0,
                    "evicted_tokens": 0,
                }
            ],
        }
    )

    thread: str
    first_seq: int = Field(
        description="Where the stretch begins: 10,000 events back at most, after the "
        "last change of the TLB's size, drop of a tier or restore of a working set."
    )
    seq: int
    tlb_entries: int
    hits: int
    misses: int
    points: list[TlbPointOut] = Field(description="Misses by size of the TLB: exact.")
    policy: Policy
    budget_tokens: int
    faults: int
    evicted: int
    runs: list[PolicyRunOut] = Field(
        description="What each policy and budget would have done, to first order: "
        "without pins and lower levels, for the same references."
    )


class MutationsQuery(AsOf, Pagination):
    type: Literal["create", "update", "fault_in", "evict", "compress"] | None = None
    by: Literal["user", "model", "tool", "system"] | None = None
    page_id: Name | None = None
    turn: Turn | None = None


class MutationOut(Out):
    thread_id: UUID = Field(
        description="Whose journal has it: an ancestor's, maybe.",
        validation_alias="home",
    )
    inherited: bool
    seq: int
    at: datetime
    type: Literal["create", "update", "fault_in", "evict", "compress"] | None = Field(
        description="Null for a step of another kind."
    )
    event: str
    actor: str
    page_id: str | None
    turn: int | None
    cause: str
    by: str
    body: dict[str, Any] = Field(description="By the event's type; never content.")


class MutationsOut(Out):
    model_config = build_example({"items": [_MUTATION], "next": None})

    items: list[MutationOut]
    next: str | None
