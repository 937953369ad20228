"""Page faults: the model asks for a page that is not in its request. Pure.

Each exchange has a budget of faults and of tokens. Refusals are journaled, so that a
model which guesses ids can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from memoryhub.errors import (
    FaultBudgetError,
    FaultConfidenceError,
    NoRoomError,
    PageErasedError,
    PageUnknownError,
    Refusal,
    StaleError,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import working_set
from memoryhub.kernel.paging.eviction import pins, precedence, weights
from memoryhub.kernel.paging.eviction.precedence import DUE
from memoryhub.kernel.paging.lookups import PageLookup, find_page
from memoryhub.kernel.paging.page_commands import FaultPage, PageRange
from memoryhub.kernel.state.page_events import (
    FaultRefused,
    PageFaulted,
    PageReferenced,
    Refused,
)
from memoryhub.kernel.state.pages import FULL, PageEntry
from memoryhub.kernel.state.paging import REFUSALS_KEPT, Frame, PagePart
from memoryhub.kernel.state.paging_config import CONFIDENCES
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json

#: Confidence of each reason.
CONFIDENCE = {
    "user_requested_recall": "explicit",
    "resolve_reference": "referenced",
    "tool_prereq": "referenced",
    "speculative": "speculative",
}


def decide_fault_page(decision: Decision, command: FaultPage, pages: PageTable) -> None:
    """Fetch a page back. Emits page.faulted, or page.referenced when it is mapped.

    A refusal emits fault.refused, at most ten times in an exchange; further refusals
    are raised. Neither a refusal nor a reference is charged.
    """
    found = find_page(decision, command.page_id, pages)
    if found.entry is None:
        gone = pages.is_deleted(command.page_id)
        _refuse_fault(
            decision, command, found, "page_erased" if gone else "page_unknown"
        )
        return
    frame = decision.paging.frames.get(found.live.page_id)
    if found.live.page_id in decision.paging.in_recall:
        # The recall of the turn holds the whole page: the request shows it above.
        _emit_referenced(decision, command, found)
        return
    call = None if command.call_id is None else pages.digest(command.call_id)
    # A repeated call id does not prove a repeat: the model may ask for other text.
    if frame is not None and _is_shown(frame, command):
        _emit_referenced(decision, command, found)
        return
    if command.range is not None:
        _fault_part(decision, command, command.range, found, call=call)
        return
    _fault_level(decision, command, found, call=call)


def _fault_level(
    decision: Decision, command: FaultPage, found: PageLookup, *, call: str | None
) -> None:
    # Check the result of the fault before any event is emitted for it.
    entry = working_set.add_made_levels(found.live, command.made)
    level = entry.pick_level(command.level)
    served = entry.require_level(level)
    cost = weigh(decision.state, entry, level)
    if refusal := _find_refusal(decision, command, served.tokens, cost):
        _refuse_fault(decision, command, found, refusal)
        return
    found = working_set.write_made_levels(decision, found, command.made, by=command.by)
    _serve_fault(
        decision, command, found, _FaultDelivery(level, served.tokens, cost, call=call)
    )


def _is_shown(frame: Frame, command: FaultPage) -> bool:
    """Return whether the working set already holds the wanted text."""
    if not frame.parts:
        return frame.level <= command.level
    wanted = command.range
    return wanted is not None and any(_has_range(part, wanted) for part in frame.parts)


def _has_range(part: PagePart, wanted: PageRange) -> bool:
    if part.offset > wanted.offset or part.end is None:
        return part.offset <= wanted.offset
    return wanted.next_offset is not None and wanted.next_offset <= part.end


def _fault_part(
    decision: Decision,
    command: FaultPage,
    wanted: PageRange,
    found: PageLookup,
    *,
    call: str | None,
) -> None:
    """Serve a part of FULL beside the parts already there, as far as there is room.

    Parts that a request has shown already make way for the new part, oldest first.
    """
    entry = found.live
    if wanted.version != entry.version:
        raise StaleError
    frame = decision.paging.frames.get(entry.page_id)
    held = sorted(frame.parts, key=attrgetter("turn")) if frame else []
    room = compute_deliverable(decision.state, entry.page_id)
    own = wanted.cost + weights.weigh_call(entry.page_id)
    while held and held[0].turn < decision.turn and _sum_costs(held) + own > room:
        held.pop(0)
    cost = _sum_costs(held) + own
    if refusal := _find_refusal(decision, command, wanted.tokens, cost):
        _refuse_fault(decision, command, found, refusal)
        return
    part = PagePart(wanted.offset, wanted.next_offset, own, decision.turn)
    parts = tuple(sorted([*held, part], key=attrgetter("offset")))
    _serve_fault(
        decision, command, found, _FaultDelivery(FULL, wanted.tokens, cost, parts, call)
    )


def _sum_costs(parts: Sequence[PagePart]) -> int:
    return sum(part.cost for part in parts)


def _find_refusal(
    decision: Decision, command: FaultPage, tokens: int, cost: int
) -> Refused | None:
    settings, spent = decision.paging.settings, decision.paging.spent
    sure = CONFIDENCES.index(CONFIDENCE[command.reason])
    if sure < CONFIDENCES.index(settings.fault_confidence_threshold):
        return "fault_confidence"
    if spent.faults >= settings.max_faults_per_turn:
        return "fault_budget"
    if spent.tokens + tokens > settings.max_fault_tokens_per_turn:
        return "fault_tokens"
    if cost > compute_deliverable(decision.state, command.page_id):
        return "no_room"
    return None


def compute_deliverable(state: ThreadState, page_id: str) -> int:
    """Compute the tokens that a fault of this page can take in the next request."""
    paging = state.paging
    most = precedence.compute_room(state, page_id, DUE)
    if not pins.is_charged_to_share(paging, page_id):
        return most
    frame = paging.frames.get(page_id)
    pinned = pins.count_pinned_tokens(paging) - (frame.tokens if frame else 0)
    return min(most, int(paging.settings.pinnable) - pinned)


def weigh(state: ThreadState, entry: PageEntry, level: int) -> int:
    """Return the tokens that the page takes once it is fetched at this level."""
    return weights.weigh_page(entry, level, recalled=True)


def compute_part_room(state: ThreadState, page_id: str) -> int:
    """Compute the room of a part's text, beside the parts not shown yet."""
    unseen = _list_unseen_parts(state, page_id)
    room = compute_deliverable(state, page_id) - _sum_costs(unseen)
    return room - weights.weigh_call(page_id)


def has_unseen_parts(state: ThreadState, page_id: str) -> bool:
    """Return whether parts of the page wait for the next request."""
    return bool(_list_unseen_parts(state, page_id))


def _list_unseen_parts(state: ThreadState, page_id: str) -> list[PagePart]:
    frame = state.paging.frames.get(page_id)
    return [p for p in (frame.parts if frame else ()) if p.turn == state.turn_count]


def _emit_referenced(decision: Decision, command: FaultPage, found: PageLookup) -> None:
    decision.emit(
        PageReferenced(
            turn=decision.turn,
            cause="fault",
            by=command.by,
            page_id=found.live.page_id,
            how="fault",
            lookup=found.lookup,
            entry=found.read,
        )
    )


class _FaultDelivery(NamedTuple):
    """Text and cost that a fault brings into the working set."""

    level: int
    tokens: int
    #: Tokens that the page then takes in all.
    cost: int
    parts: tuple[PagePart, ...] = ()
    #: Digest of the id of the call that asked for the page.
    call: str | None = None


def _serve_fault(
    decision: Decision, command: FaultPage, found: PageLookup, serves: _FaultDelivery
) -> None:
    entry = found.live
    frame = decision.paging.frames.get(entry.page_id)
    before = frame.level if frame else None
    tier = decision.paging.find_tier(entry.page_id) or entry.home
    # Only delivered tokens are charged: the room was checked before.
    made = working_set.make_room(decision, entry.page_id, serves.cost, own=DUE)
    assert made
    decision.emit(
        PageFaulted(
            turn=decision.turn,
            cause="upgrade" if frame else "fault",
            by=command.by,
            page_id=entry.page_id,
            level=serves.level,  # type: ignore[arg-type]  # 0 to 3
            level_before=before,  # type: ignore[arg-type]  # 0 to 3
            tokens=serves.tokens,
            cost=serves.cost,
            reason=command.reason,
            tier_before=tier,  # type: ignore[arg-type]  # closed words
            tier_after="L0",
            promoted=True,
            parts=[list(part[:4]) for part in serves.parts] or None,
            call=serves.call,
            lookup=found.lookup,
            entry=found.read,
        )
    )


def _refuse_fault(
    decision: Decision, command: FaultPage, found: PageLookup, refusal: Refused
) -> None:
    if decision.paging.spent.refusals >= REFUSALS_KEPT:
        raise build_refusal(refusal)
    unknown = refusal == "page_unknown"
    event = FaultRefused(
        turn=decision.turn,
        cause="fault",
        by=command.by,
        refusal=refusal,
        level=command.level,  # type: ignore[arg-type]  # 0 to 3
        page_id=None if unknown else command.page_id,
        reason=command.reason,
        lookup=found.lookup,
        entry=found.read,
    )
    sealed = {"page_id": command.page_id} if unknown else {}
    decision.emit(event, strict_json.dump_stored(sealed))


def build_refusal(word: Refused, **detail: int | str) -> Refusal:
    """Build the refusal that a fault.refused stands for."""
    return _REFUSALS[word](**detail)


_REFUSALS: dict[str, type[Refusal]] = {
    "page_unknown": PageUnknownError,
    "page_erased": PageErasedError,
    "fault_confidence": FaultConfidenceError,
    "fault_budget": FaultBudgetError,
    "fault_tokens": FaultBudgetError,
    "no_room": NoRoomError,
}


def list_cheaper_levels(entry: PageEntry, *, tokens_left: int) -> list[int]:
    """List the levels that the tokens left would pay for, cheapest first."""
    levels = [n for n in (3, 2, 1, 0) if entry.levels[n] is not None]
    return [
        level for level in levels if entry.require_level(level).tokens <= tokens_left
    ]
