"""The working set, the TLB, the manifest and the metrics of paging on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from memoryhub.api.fields import In, Name, Out, RefusedError, Turn
from memoryhub.api.page_schemas import By, LevelOut, Rule
from memoryhub.api.schemas import AsOf, Part
from memoryhub.kernel.pages import Entry, Modality, PageType, Tier
from memoryhub.kernel.state import ThreadState
from memoryhub.queries.mutations import Mutation
from memoryhub.queries.paging_metrics import Tally, Verdict
from memoryhub.queries.residency import Budget, Cell, Residency, Warm


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
        return cls.like(
            cell,
            rule=why.rule or None,
            protected_until=why.protected_until,
            score=why.score,
            terms=[TermOut.like(term) for term in why.terms],
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

    @classmethod
    def of(cls, page: Warm) -> Self:
        return cls.like(page)


class VerdictOut(Out):
    thrashing: bool
    reasons: list[Literal["refaults", "stuck"]]
    pages: list[str]

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        return cls.like(
            verdict, reasons=list(verdict.reasons), pages=list(verdict.pages)
        )


class WorkingSetOut(Out):
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
        return cls.like(
            found,
            thread=name,
            budget=BudgetOut.of(found.budget),
            frames=[FrameOut.of(cell) for cell in found.cells],
            hot=[HotOut.of(page) for page in found.warm],
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
        return cls.like(entry, tier=tier, levels=LevelOut.of(entry))


class TlbOut(Out):
    thread: str
    seq: int
    size: int = Field(description="Entries it may hold.")
    hits: int
    misses: int
    hit_rate: float | None = Field(description="Null before the first look-up.")
    items: list[TlbEntryOut] = Field(description="The newest first.")


class InvalidateIn(In):
    """One page, or all pages that stand in a tier."""

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
    thread: str
    thread_id: UUID
    seq: int
    dropped: int


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

    @classmethod
    def of(cls, tally: Tally) -> Self:
        return cls(
            hits=tally.count("hits"),
            misses=tally.count("misses"),
            hit_rate=tally.hit_rate,
            faults=tally.count("faults"),
            faults_by_reason=tally.by("fault.reason."),
            faults_by_tier=tally.by("fault.from."),
            refusals=tally.count("refused"),
            refusals_by_code=tally.by("refused."),
            referenced=tally.count("referenced"),
            fault_rate=tally.fault_rate,
            refaults=tally.count("refaults"),
            mapped=tally.count("mapped"),
            evictions=tally.count("evicted"),
            evictions_by_cause=tally.by("evicted."),
            lowerings=tally.count("lowered"),
            saved_tokens=tally.count("saved_tokens"),
        )


class TurnTallyOut(Out):
    turn: int
    resident_rate: float | None = Field(
        description="Of the last 20 exchanges, as of the turn's end."
    )
    counts: PagingTallyOut


class PagingOut(Out):
    thread: str
    seq: int
    turn: int
    budget: BudgetOut
    pages: int
    mapped: int
    hot: int
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


class ManifestOut(Out):
    """What a model can know of the pages there are; here with every frame."""

    thread: str
    turn: int
    mapped: int
    tokenizer: str = Field(description="Who counts `tokens_est`.")
    working_set: list[ManifestFrameOut]
    available_pages: list[OfferedOut]
    omitted: int
    policies: PoliciesOut


class MutationsQuery(AsOf, Part):
    type: Literal["create", "update", "fault_in", "evict", "compress"] | None = None
    by: Literal["user", "model", "tool", "system"] | None = None
    page_id: Name | None = None
    turn: Turn | None = None


class MutationOut(Out):
    thread_id: UUID = Field(description="Whose journal has it: an ancestor's, maybe.")
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

    @classmethod
    def of(cls, found: Mutation) -> Self:
        return cls.like(found, thread_id=found.home, body=dict(found.body))


class MutationsOut(Out):
    items: list[MutationOut]
    next: str | None
