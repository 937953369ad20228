"""From a thread's state to what its next request should hold. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from memoryhub.kernel import pins, policies, tools
from memoryhub.kernel.choosing import CALLING, Candidate
from memoryhub.kernel.contexts import Policies, Row
from memoryhub.kernel.levels import producible
from memoryhub.kernel.packing import Wanted
from memoryhub.kernel.pages import (
    REFERENCE,
    Entry,
    Location,
    slot_page_id,
    system_prompt,
)
from memoryhub.kernel.paging import Frame, Paging, values
from memoryhub.kernel.paging_config import Settings
from memoryhub.kernel.state import ThreadState


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the caller says about one request."""

    #: The thread's name, as the manifest says it.
    name: str
    turn: int
    mode: str | None = None
    token_budget: int | None = None
    tools: str = tools.CURRENT


def wanted(state: ThreadState, asked: Asked, *, home: Sequence[Entry]) -> Wanted:
    """All that packing is told. `home` are pages at home, newest first."""
    paging, settings = state.paging, state.paging.settings
    system, candidates = _mapped(state)
    offered = [row(entry, tier="L1", own=state.id) for entry in _hot(state)]
    offered += [row(entry, tier=entry.home, own=state.id) for entry in home]
    return Wanted(
        thread=state.id,
        thread_name=asked.name,
        turn=asked.turn,
        mode=asked.mode or settings.mode,
        budget_tokens=settings.budget_tokens,
        reserved_tokens=settings.reserved_tokens,
        policies=policies_of(paging),
        token_budget=asked.token_budget,
        system=tuple(system),
        candidates=tuple(candidates),
        last_user_slot=paging.exchange(state.slot_count),
        newest=_newest(paging),
        mapped=len(paging.frames),
        available=tuple(offered),
        unlisted=paging.pages - len(paging.frames) - len(offered),
        tools=asked.tools,
    )


def _mapped(state: ThreadState) -> tuple[list[Candidate], list[Candidate]]:
    """The system prompt, and all other frames, as they stand in the context."""
    paging, rules = state.paging, pins.pinned(state)
    scores = policies.frame_scores(paging, turn=state.turn_count)
    system, others = list[Candidate](), list[Candidate]()
    for frame in paging.in_order():
        name = frame.page_id
        page = _candidate(frame, keep=scores[name], pinned=name in rules)
        (system if system_prompt(frame.entry) else others).append(page)
    return system, others


def places(wanted: Wanted) -> list[Location]:
    """Where the texts lie that packing may need."""
    pages = (*wanted.system, *wanted.candidates, *wanted.newest)
    said = (page.full for page in wanted.candidates if page.full is not None)
    rows = (row.location(wanted.thread) for row in wanted.available)
    return [*dict.fromkeys([*(page.location for page in pages), *said, *rows])]


def without(wanted: Wanted, gone: Collection[Location]) -> Wanted:
    """The same but for what lies at these places: texts that were erased since.

    A fork may still hold a page whose text its ancestor has deleted.
    """
    if not gone:
        return wanted

    def kept(pages: Iterable[Candidate]) -> tuple[Candidate, ...]:
        return tuple(page for page in pages if page.location not in gone)

    own = wanted.thread
    return replace(
        wanted,
        system=kept(wanted.system),
        candidates=kept(wanted.candidates),
        newest=kept(wanted.newest),
        available=tuple(
            row for row in wanted.available if row.location(own) not in gone
        ),
    )


def _candidate(frame: Frame, *, keep: float, pinned: bool) -> Candidate:
    entry = frame.entry
    return Candidate(
        page_id=entry.page_id,
        level=frame.level,
        location=entry.at(frame.level).location,
        version=entry.version,
        cost=frame.tokens,
        keep=keep,
        pinned=pinned,
        slot=entry.slot,
        role=entry.role,
        importance=entry.importance,
        recalled=frame.recalled,
        full=entry.full.location if frame.level and entry.role in CALLING else None,
    )


def _newest(paging: Paging) -> tuple[Candidate, ...]:
    """The last user slot at every level it has, most faithful first."""
    if paging.last_user is None:
        return ()
    frame = paging.frames.get(slot_page_id(paging.last_user.slot))
    if frame is None:
        return ()
    return tuple(
        _candidate(frame._replace(level=level, tokens=held.cost), keep=1.0, pinned=True)
        for level, held in enumerate(frame.entry.levels)
        if held is not None
    )


def _hot(state: ThreadState) -> list[Entry]:
    """Pages of the hot list, the one most worth keeping first."""
    paging, turn = state.paging, state.turn_count
    pages = sorted(
        values(paging.hot),
        key=lambda page: (
            -policies.hot_score(page, paging, turn=turn),
            -page.since_seq,
            page.page_id,
        ),
    )
    return [page.entry for page in pages]


def row(entry: Entry, *, tier: str, own: UUID) -> Row:
    """A page as the manifest offers it: by its hint, else by what it begins with."""
    # They are made all at once, so what is missing beside one there can't be.
    makable = producible(entry.modality) and not any(entry.levels[1:])
    levels = [n for n in range(REFERENCE + 1) if entry.levels[n] or makable]
    place = entry.hint or entry.full.location
    return Row(
        entry.page_id,
        tier,
        "".join(map(str, levels)),
        place.seq,
        place.level,
        None if place.thread == own else place.thread,
    )


def policies_of(paging: Paging) -> Policies:
    """What the model may still do in this exchange."""
    settings: Settings = paging.settings
    left = max(0, settings.max_faults_per_turn - paging.spent.faults)
    tokens = max(0, settings.max_fault_tokens_per_turn - paging.spent.tokens)
    return Policies(left > 0 and tokens > 0, settings.max_faults_per_turn, left, tokens)
