"""Residency: pages in a thread's working set as of an event, and the reasons.

Never writes and makes no look-up: the TLB and its counters stay unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from memoryhub.kernel.context import lines
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.paging.eviction import eviction, pins
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.pages import Location, PageEntry
from memoryhub.kernel.state.paging import (
    REFAULT_TURNS,
    Frame,
    Hot,
    Paging,
    Past,
    list_values,
)
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.policies import ScoreParts
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay

#: Thresholds of thrashing: refaults per turn, and the share of the usable tokens that
#: cannot be evicted.
THRASHING, STUCK = 0.5, 0.85
_NOTHING: dict[str, float] = dict.fromkeys(ScoreParts._fields, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """One part of a keep score: its value, and its contribution to the score."""

    name: str
    value: float
    adds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepReason:
    """Why a page stays: the pinning rule, the protection, the keep score."""

    #: `explicit`, `system`, `exchange`, `recent`, `claim`; empty when nothing pins it.
    rule: str
    score: float
    #: What the policy scores, and the policy's name.
    parts: ScoreParts
    policy: str
    #: The first turn in which the page may be evicted; None when it may be evicted now.
    protected_until: int | None
    #: Rank of eviction: 1 leaves first; None if no eviction run takes the page: it is
    #: pinned, due in the next request, or held by its group.
    rank: int | None

    @property
    def terms(self) -> tuple[ScorePart, ...]:
        """Build the parts of the score; a page of tiles asks for few."""
        policy = policies.POLICIES[self.policy]
        keep = policy.frame
        return tuple(_build_score_part(name, self.parts, keep) for name in policy.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentPage:
    """A page in the working set, in its place in the context."""

    page_id: str
    level: int
    type: str
    modality: str
    role: str | None
    version: int
    importance: float
    tokens: int
    full_tokens: int
    recalled: bool
    references: int
    idle_turns: int
    #: The event that put the page at its level; None when the event is an ancestor's.
    cause_seq: int | None
    #: Type of that event; empty where it was not asked for.
    cause: str
    #: The event that mapped the page; None when the event is an ancestor's.
    since_seq: int | None
    #: The index of the page's slot.
    slot: int | None
    created_turn: int
    #: Location of the text shown for the page.
    place: Location
    why: KeepReason


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPage:
    """A page of the hot list."""

    page_id: str
    type: str
    modality: str
    tokens: int
    references: int
    score: float
    #: The event that made the page hot; None when the event is an ancestor's.
    since_seq: int | None
    #: Whether the page was never mapped.
    unmapped: bool
    #: Whether the page is too large to be mapped whole: no room would be left.
    too_large: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """Tokens of the working set, by use."""

    settings: PagingSettings
    used: int
    #: Tokens of frames pinned by any rule, and of frames pinned by a command.
    pinned: int
    explicit: int
    #: Tokens of frames that are protected but not pinned.
    protected: int

    @property
    def free(self) -> int:
        return max(0, self.settings.usable - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """A working set as of an event."""

    seq: int
    turn: int
    budget: TokenUse
    #: The event with which the turn began; 0 before the first turn or if an ancestor's.
    turn_seq: int
    #: In the order of the context.
    cells: tuple[ResidentPage, ...]
    #: Highest keep score first.
    warm: tuple[HotPage, ...]
    hits: int
    misses: int
    entries: int
    #: Number of refaults in the latest turns, and the pages that return too soon.
    refaults: int
    thrashing: tuple[str, ...]
    #: Whether the latest turn began over budget.
    over_budget: bool

    @property
    def thrash_index(self) -> float:
        return self.refaults / REFAULT_TURNS

    @property
    def is_stuck(self) -> bool:
        """Tell whether too few tokens can be evicted for new pages."""
        held = self.budget.pinned + self.budget.protected
        return held > STUCK * self.budget.settings.usable

    @property
    def unmapped(self) -> tuple[HotPage, ...]:
        """Return pages that were created without room to be mapped."""
        return tuple(page for page in self.warm if page.unmapped)


def get_residency(thread: Thread, seq: int) -> Residency:
    """Return the working set as of `seq`. Five queries and a bounded fold.

    `thread` comes with its subject. Raises SeqUnknownError beyond the head.
    """
    return build_residency(thread, replay.load_state_at(thread, seq).state)


def build_residency(
    thread: Thread, state: ThreadState, *, causes: bool = True
) -> Residency:
    """Build the residency of a state of the thread. Two queries.

    One query without the `causes` of the pages' levels.
    """
    paging, turn = state.paging, state.turn_count
    frames = paging.list_in_context_order()
    types = _map_causes(state, frames) if causes else {}
    cells = [_build_cell(state, *each, types) for each in explain_frames(state, frames)]
    turn_seq, over_budget = _get_turn(thread, turn)
    return Residency(
        seq=state.seq,
        turn=turn,
        turn_seq=turn_seq,
        budget=_build_budget(paging, cells),
        cells=tuple(cells),
        warm=list_hot_pages(state),
        hits=paging.tlb.hits,
        misses=paging.tlb.misses,
        entries=len(paging.tlb.held),
        refaults=paging.count_refaults(turn),
        thrashing=tuple(sorted(paging.thrashing)),
        over_budget=over_budget,
    )


def explain_frames(
    state: ThreadState, frames: Sequence[Frame]
) -> list[tuple[Frame, KeepReason, ScoreParts]]:
    """Explain for each frame, in order, why it stays in the working set. Pure."""
    paging, turn = state.paging, state.turn_count
    policy = policies.POLICIES[paging.settings.policy]
    keep = policy.frame
    rules = pins.list_pinned(state)
    parts = policies.build_score_parts(frames, paging, turn=turn)
    scores = {f.page_id: keep(t) for f, t in zip(frames, parts, strict=True)}
    ranks = _rank_pages(state)
    return [
        (
            frame,
            KeepReason(
                rule=rules.get(frame.page_id, ""),
                score=scores[frame.page_id],
                parts=each,
                policy=paging.settings.policy,
                protected_until=compute_protection_end(
                    paging.history.get(frame.page_id), paging.settings, turn=turn
                ),
                rank=ranks.get(frame.page_id),
            ),
            each,
        )
        for frame, each in zip(frames, parts, strict=True)
    ]


def explain_page(state: ThreadState, page_id: str) -> KeepReason | None:
    """Explain why one page stays; None while the page is not mapped. Pure."""
    if page_id not in state.paging.frames:
        return None
    each = explain_frames(state, state.paging.list_in_context_order())
    return next(why for frame, why, _ in each if frame.page_id == page_id)


def compute_protection_end(
    past: Past | None, settings: PagingSettings, *, turn: int
) -> int | None:
    """Return the first turn in which anti-thrash no longer protects the page."""
    if past is None:
        return None
    ends = []
    if past.faulted_turn is not None:
        ends.append(past.faulted_turn + settings.protect_turns)
    if past.back and past.evicted_turn is not None:
        ends.append(past.evicted_turn + settings.cooldown_turns)
    until = max(ends, default=0)
    return until if until > turn else None


def to_own_seq(state: ThreadState, clock: int) -> int | None:
    """Convert a clock to a seq of this thread; None when the event is an ancestor's."""
    seq = clock - (state.clock - state.seq)
    return seq if seq > 0 else None


def get_letter(entry: PageEntry) -> str:
    """Return the first letter of the page's line in the context."""
    shown = OpenedPage(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        content=None,
        role=entry.role,
        slot=entry.slot,
    )
    return lines.get_letter(shown)


def _build_score_part(name: str, parts: ScoreParts, keep: policies.Keep) -> ScorePart:
    value: float = getattr(parts, name)
    # Score the part alone: the weights stay with the policy and are not repeated here.
    alone = ScoreParts(**{**_NOTHING, "weight": parts.weight, name: value})  # type: ignore[arg-type]  # of a field
    return ScorePart(name=name, value=value, adds=keep(alone))


def _rank_pages(state: ThreadState) -> dict[str, int]:
    """Rank the pages that an eviction run may take, in its order, from 1."""
    passes = eviction.list_victims(state)
    order = [frame.page_id for scored in passes for _, frame in scored]
    return {page_id: n for n, page_id in enumerate(order, start=1)}


def _build_cell(
    state: ThreadState,
    frame: Frame,
    why: KeepReason,
    parts: ScoreParts,
    causes: dict[int, str],
) -> ResidentPage:
    entry, cause_seq = frame.entry, to_own_seq(state, frame.cause_seq)
    return ResidentPage(
        page_id=entry.page_id,
        level=frame.level,
        type=entry.type,
        modality=entry.modality,
        role=entry.role,
        version=entry.version,
        importance=entry.importance,
        tokens=frame.tokens,
        full_tokens=entry.full.cost,
        recalled=frame.recalled,
        references=frame.references,
        idle_turns=parts.idle_turns,
        cause_seq=cause_seq,
        cause=causes.get(cause_seq or 0, ""),
        since_seq=to_own_seq(state, frame.mapped_seq),
        slot=entry.slot,
        created_turn=entry.created_turn,
        place=entry.require_level(frame.level).location,
        why=why,
    )


def _map_causes(state: ThreadState, frames: Sequence[Frame]) -> dict[int, str]:
    """Return the type of the event that put each frame at its level. One query."""
    seqs = {to_own_seq(state, frame.cause_seq) or 0 for frame in frames}
    rows = Event.objects.filter(thread_id=state.id, seq__in=seqs)
    return dict(rows.values_list("seq", "type"))


def list_hot_pages(state: ThreadState) -> tuple[HotPage, ...]:
    """List the hot pages, highest score first. Pure."""
    paging, turn = state.paging, state.turn_count
    scored = [
        (policies.score_hot_page(page, paging, turn=turn), page)
        for page in list_values(paging.hot)
    ]
    scored.sort(key=lambda each: (-each[0], -each[1].since_seq, each[1].page_id))
    return tuple(_build_hot_page(state, page, score) for score, page in scored)


def _build_hot_page(state: ThreadState, page: Hot, score: float) -> HotPage:
    entry, largest = page.entry, pins.compute_largest(state.paging, page.page_id)
    return HotPage(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        tokens=entry.full.cost,
        references=page.references,
        score=score,
        since_seq=to_own_seq(state, page.since_seq),
        unmapped=page.since_seq == entry.created_seq,
        too_large=entry.full.cost > largest,
    )


def _build_budget(paging: Paging, cells: Sequence[ResidentPage]) -> TokenUse:
    pinned = [cell for cell in cells if cell.why.rule]
    spared = [c for c in cells if not c.why.rule and c.why.protected_until is not None]
    return TokenUse(
        settings=paging.settings,
        used=paging.used,
        pinned=sum(cell.tokens for cell in pinned),
        explicit=pins.count_pinned_tokens(paging),
        protected=sum(cell.tokens for cell in spared),
    )


def _get_turn(thread: Thread, turn: int) -> tuple[int, bool]:
    """Return the seq at which the turn began, and whether it began over budget.

    One query; (0, False) for a turn of an ancestor.
    """
    began = Turn.objects.filter(thread_id=thread.id, n=turn).values("seq")
    events = Event.objects.filter(thread_id=thread.id, seq__in=began)
    row = events.values_list("seq", "body").first()
    if row is None:
        return 0, False
    return row[0], bool(orjson.loads(row[1]).get("over_budget"))
