"""The working set, the TLB, the manifest and the metrics of paging on the wire."""

from __future__ import annotations

from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from memoryhub.api.document.fields import In, Name, Out, RefusedError, example
from memoryhub.api.document.samples import PAGE, PLACE, THREAD_NAME
from memoryhub.api.paging.page_schemas import By, LevelOut, Rule
from memoryhub.kernel.state.pages import Entry, Modality, PageType, Tier
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging.residency import Budget, Cell, Residency

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


class BudgetOut(Out):
    """Where the tokens are; all are of lines as they stand in a request."""

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
    def of(cls, budget: Budget) -> Self:
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
    rank: int | None = Field(description="1 leaves first; null for what is pinned.")

    @classmethod
    def of(cls, cell: Cell) -> Self:
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


class VerdictOut(Out):
    thrashing: bool
    reasons: list[Literal["refaults", "stuck"]]
    pages: list[str]


class WorkingSetOut(Out):
    model_config = example(
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
    def of(cls, name: str, found: Residency) -> Self:
        return cls.from_record(
            found,
            thread=name,
            budget=BudgetOut.of(found.budget),
            frames=[FrameOut.of(cell) for cell in found.cells],
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
    def of(cls, state: ThreadState, entry: Entry) -> Self:
        tier = state.paging.tier(entry.page_id) or entry.home
        return cls.from_record(entry, tier=tier, levels=LevelOut.of(entry))


class TlbOut(Out):
    model_config = example(
        {
            "thread": THREAD_NAME,
            "seq": 17,
            "size": 512,
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
    size: int = Field(description="Entries it may hold.")
    hits: int
    misses: int
    hit_rate: float | None = Field(description="Null before the first look-up.")
    items: list[TlbEntryOut] = Field(description="The newest first.")


class InvalidateIn(In):
    """One page, or all pages that stand in a tier."""

    model_config = example({"tier": "L1"})

    page_id: Name | None = None
    tier: Tier | None = None
    by: By = "tool"

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if (self.page_id is None) == (self.tier is None):
            says = "one of `page_id` and `tier`, and not both"
            raise RefusedError("value", allowed=says, loc=("page_id",))
        return self


class DroppedOut(Out):
    model_config = example({**PLACE, "seq": 19, "dropped": 6})

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


class PrefetchOut(Out):
    """What a turn may bring along whatever it is asked."""

    model_config = example(
        {
            "thread": THREAD_NAME,
            "turn": 3,
            "tool_uses": [
                {"tool": "refund", "pages": [{"page_id": "fare-rules", "reads": 3}]}
            ],
            "claim_uses": [{"page_id": "seat-12a", "references": 2}],
            "coming": [{"page_id": "fare-rules", "why": "prerequisite"}],
        }
    )

    thread: str
    turn: int
    tool_uses: list[ToolUseOut] = Field(description="As called, the last one first.")
    claim_uses: list[ClaimUseOut] = Field(description="At hand, the most used first.")
    coming: list[PrefetchedOut] = Field(description="What would come with a turn now.")


class ManifestOut(Out):
    """What a model can know of the pages there are; here with every frame."""

    model_config = example(
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
