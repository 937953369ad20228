"""Residency: what stands in a thread's working set as of an event, and why.

Never writes, and looks nothing up: the TLB and its counters stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from memoryhub.kernel.levels import lines
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.paging import pins
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.pages import Entry, Location
from memoryhub.kernel.state.paging import REFAULT_TURNS, Frame, Hot, Paging, Past
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.policies import ScoreParts
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay

#: Refaults a turn, and share of the usable tokens that nothing can leave, from which on
#: a thread is said to thrash.
THRASHING, STUCK = 0.5, 0.85
_NOTHING: dict[str, float] = dict.fromkeys(ScoreParts._fields, 0)
#: Parts of a keep score, in the order they are reported.
_PARTS = ("recency", "value", "penalty")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """One part of a keep score: what it is, and what that adds to the score."""

    name: str
    value: float
    adds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a page stays: the rule that pins it, its protection, its keep score."""

    #: `explicit`, `system`, `exchange`, `recent`, `claim`; empty when nothing pins it.
    rule: str
    score: float
    terms: tuple[ScorePart, ...]
    #: The first turn in which it may leave again; None when it may now.
    protected_until: int | None
    #: It leaves first, then 2, and so on; None for a page that is pinned.
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A page in the working set, as it stands in the context."""

    page_id: str
    #: That its line begins with.
    letter: str
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
    #: The event that put it where it is; None when an ancestor's did.
    cause_seq: int | None
    cause: str
    #: The event that mapped it; None when an ancestor's did.
    since_seq: int | None
    #: Of the slot whose page it is.
    slot: int | None
    created_turn: int
    #: Where the text lies that is shown of it.
    place: Location
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """A page of the hot list."""

    page_id: str
    type: str
    modality: str
    tokens: int
    references: int
    score: float
    #: The event that made it hot; None when an ancestor's did.
    since_seq: int | None
    #: It was never mapped.
    unmapped: bool
    #: It can't be mapped whole: a page of so many tokens would leave no room.
    too_large: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Where the tokens of the working set are."""

    settings: Settings
    used: int
    #: Of frames that some rule pins, and of those pinned by a command alone.
    pinned: int
    explicit: int
    #: Of frames that are not pinned but protected.
    protected: int

    @property
    def free(self) -> int:
        return max(0, self.settings.usable - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """A working set as of an event."""

    seq: int
    turn: int
    budget: Budget
    #: The event that the turn began with; 0 before the first, and for an ancestor's.
    turn_seq: int
    #: In the order of the context.
    cells: tuple[Cell, ...]
    #: The one most worth keeping first.
    warm: tuple[Warm, ...]
    hits: int
    misses: int
    entries: int
    #: Refaults in the last turns, and the pages that come back too soon.
    refaults: int
    thrashing: tuple[str, ...]
    #: As the last turn said when it began.
    over_budget: bool

    @property
    def thrash_index(self) -> float:
        return self.refaults / REFAULT_TURNS

    @property
    def stuck(self) -> bool:
        """Whether too little can leave for what comes."""
        held = self.budget.pinned + self.budget.protected
        return held > STUCK * self.budget.settings.usable

    @property
    def unmapped(self) -> tuple[Warm, ...]:
        """Pages that were made but found no room."""
        return tuple(page for page in self.warm if page.unmapped)


def get_residency(thread: Thread, seq: int) -> Residency:
    """Return the working set as of `seq`. Five queries and a bounded fold.

    `thread` comes with its subject. Raises SeqUnknownError beyond the head.
    """
    return residency_of(thread, replay.state_at(thread, seq).state)


def residency_of(thread: Thread, state: ThreadState) -> Residency:
    """Return the working set of a state of the thread. Three queries."""
    paging, turn = state.paging, state.turn_count
    frames = paging.in_order()
    causes = _causes(state, frames)
    cells = [_cell(state, *each, causes) for each in why_each(state, frames)]
    turn_seq, over_budget = _turn(thread, turn)
    return Residency(
        seq=state.seq,
        turn=turn,
        turn_seq=turn_seq,
        budget=_budget(paging, cells),
        cells=tuple(cells),
        warm=list_warm(state),
        hits=paging.tlb.hits,
        misses=paging.tlb.misses,
        entries=len(paging.tlb.held),
        refaults=paging.refault_count(turn),
        thrashing=tuple(sorted(paging.thrashing)),
        over_budget=over_budget,
    )


def why_each(
    state: ThreadState, frames: Sequence[Frame]
) -> list[tuple[Frame, Why, ScoreParts]]:
    """Return why each frame stays where it is, in order. Pure."""
    paging, turn = state.paging, state.turn_count
    keep = policies.POLICIES[paging.settings.policy].frame
    rules = pins.pinned(state)
    parts = policies.score_parts(frames, paging, turn=turn)
    scores = {f.page_id: keep(t) for f, t in zip(frames, parts, strict=True)}
    ranks = _ranks(frames, scores, rules, paging, turn=turn)
    return [
        (
            frame,
            Why(
                rule=rules.get(frame.page_id, ""),
                score=scores[frame.page_id],
                terms=tuple(_score_part(name, each, keep) for name in _PARTS),
                protected_until=protected_until(
                    paging.history.get(frame.page_id), paging.settings, turn=turn
                ),
                rank=ranks.get(frame.page_id),
            ),
            each,
        )
        for frame, each in zip(frames, parts, strict=True)
    ]


def why_of(state: ThreadState, page_id: str) -> Why | None:
    """Return why one page stays; None while it is not mapped. Pure."""
    if page_id not in state.paging.frames:
        return None
    each = why_each(state, state.paging.in_order())
    return next(why for frame, why, _ in each if frame.page_id == page_id)


def protected_until(past: Past | None, settings: Settings, *, turn: int) -> int | None:
    """Return the first turn in which anti-thrash no longer spares the page."""
    if past is None:
        return None
    ends = []
    if past.faulted_turn is not None:
        ends.append(past.faulted_turn + settings.protect_turns)
    if past.back and past.evicted_turn is not None:
        ends.append(past.evicted_turn + settings.cooldown_turns)
    until = max(ends, default=0)
    return until if until > turn else None


def own_seq(state: ThreadState, clock: int) -> int | None:
    """Return the event of this thread at a clock; None when it is an ancestor's."""
    seq = clock - (state.clock - state.seq)
    return seq if seq > 0 else None


def letter(entry: Entry) -> str:
    """Return the first letter of the page's line in the context."""
    shown = Opened(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        content=None,
        role=entry.role,
        slot=entry.slot,
    )
    return lines.letter(shown)


def _score_part(name: str, parts: ScoreParts, keep: policies.Keep) -> ScorePart:
    value: float = getattr(parts, name)
    # Alone it leads to what it adds: that way no weight stands here a second time.
    alone = ScoreParts(**{**_NOTHING, name: value})  # type: ignore[arg-type]  # of a field
    return ScorePart(name=name, value=value, adds=keep(alone))


def _ranks(
    frames: Sequence[Frame],
    scores: dict[str, float],
    rules: dict[str, str],
    paging: Paging,
    *,
    turn: int,
) -> dict[str, int]:
    """In which order the pages would leave, from 1; the protected come last."""
    order = sorted(
        (
            policies.protected(paging.history.get(f.page_id), paging, turn=turn),
            scores[f.page_id],
            f.mapped_seq,
            f.page_id,
        )
        for f in frames
        if f.page_id not in rules
    )
    return {page_id: n for n, (*_, page_id) in enumerate(order, start=1)}


def _cell(
    state: ThreadState,
    frame: Frame,
    why: Why,
    parts: ScoreParts,
    causes: dict[int, str],
) -> Cell:
    entry, cause_seq = frame.entry, own_seq(state, frame.cause_seq)
    return Cell(
        page_id=entry.page_id,
        letter=letter(entry),
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
        since_seq=own_seq(state, frame.mapped_seq),
        slot=entry.slot,
        created_turn=entry.created_turn,
        place=entry.at(frame.level).location,
        why=why,
    )


def _causes(state: ThreadState, frames: Sequence[Frame]) -> dict[int, str]:
    """What kind of event put each where it is. One query."""
    seqs = {own_seq(state, frame.cause_seq) or 0 for frame in frames}
    rows = Event.objects.filter(thread_id=state.id, seq__in=seqs)
    return dict(rows.values_list("seq", "type"))


def list_warm(state: ThreadState) -> tuple[Warm, ...]:
    """List the hot list, the page most worth keeping first. Pure."""
    paging, turn = state.paging, state.turn_count
    scored = [
        (policies.hot_score(page, paging, turn=turn), page)
        for page in paging.hot.values()
    ]
    scored.sort(key=lambda each: (-each[0], -each[1].since_seq, each[1].page_id))
    return tuple(_warmed(state, page, score) for score, page in scored)


def _warmed(state: ThreadState, page: Hot, score: float) -> Warm:
    entry, largest = page.entry, pins.largest(state.paging, page.page_id)
    return Warm(
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        tokens=entry.full.cost,
        references=page.references,
        score=score,
        since_seq=own_seq(state, page.since_seq),
        unmapped=page.since_seq == entry.created_seq,
        too_large=entry.full.cost > largest,
    )


def _budget(paging: Paging, cells: Sequence[Cell]) -> Budget:
    pinned = [cell for cell in cells if cell.why.rule]
    spared = [c for c in cells if not c.why.rule and c.why.protected_until is not None]
    return Budget(
        settings=paging.settings,
        used=paging.used,
        pinned=sum(cell.tokens for cell in pinned),
        explicit=pins.pinned_tokens(paging),
        protected=sum(cell.tokens for cell in spared),
    )


def _turn(thread: Thread, turn: int) -> tuple[int, bool]:
    """Where the turn began, and whether it could not map all it had to.

    One query; 0 and no for an ancestor's.
    """
    began = Turn.objects.filter(thread_id=thread.id, n=turn).values("seq")
    events = Event.objects.filter(thread_id=thread.id, seq__in=began)
    row = events.values_list("seq", "body").first()
    if row is None:
        return 0, False
    return row[0], bool(orjson.loads(row[1]).get("over_budget"))
