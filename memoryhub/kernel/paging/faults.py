"""Page faults: the model asks for a page that is not before it. Pure.

Each exchange has a budget of faults and of tokens; a refusal is journaled, so that a
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
from memoryhub.kernel.paging import pins, precedence, weights, working_set
from memoryhub.kernel.paging.lookups import Found, find
from memoryhub.kernel.paging.page_commands import FaultPage, Range
from memoryhub.kernel.paging.precedence import DUE
from memoryhub.kernel.state.page_events import (
    FaultRefused,
    PageFaulted,
    PageReferenced,
    Refused,
)
from memoryhub.kernel.state.pages import FULL, Entry
from memoryhub.kernel.state.paging import REFUSALS_KEPT, Frame, PagePart
from memoryhub.kernel.state.paging_config import CONFIDENCES
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json

#: How sure each reason is.
CONFIDENCE = {
    "user_requested_recall": "explicit",
    "resolve_reference": "referenced",
    "tool_prereq": "referenced",
    "speculative": "speculative",
}


def fault_page(decision: Decision, command: FaultPage, pages: PageTable) -> None:
    """Fetch a page back. Emits page.faulted, or page.referenced when it is mapped.

    A refusal emits fault.refused, of which an exchange keeps ten; beyond them it is
    raised. Nothing is charged for either.
    """
    found = find(decision, command.page_id, pages)
    if found.entry is None:
        gone = pages.deleted(command.page_id)
        _refuse(decision, command, found, "page_erased" if gone else "page_unknown")
        return
    frame = decision.paging.frames.get(found.live.page_id)
    if found.live.page_id in decision.paging.in_recall:
        # The turn has brought it along, whole: it is shown above.
        _reference(decision, command, found)
        return
    call = None if command.call_id is None else pages.digest(command.call_id)
    # Nor does a repeated call id tell more: a model may have asked for something else.
    if frame is not None and _shows(frame, command):
        _reference(decision, command, found)
        return
    if command.range is not None:
        _fault_part(decision, command, command.range, found, call=call)
        return
    _fault_level(decision, command, found, call=call)


def _fault_level(
    decision: Decision, command: FaultPage, found: Found, *, call: str | None
) -> None:
    # What the fault would serve is known before anything is written for it.
    entry = working_set.with_made(found.live, command.made)
    level = entry.at_most(command.level)
    served = entry.at(level)
    cost = weigh(decision.state, entry, level)
    if refusal := _refusal(decision, command, served.tokens, cost):
        _refuse(decision, command, found, refusal)
        return
    found = working_set.write_made(decision, found, command.made, by=command.by)
    _serve(decision, command, found, _Serves(level, served.tokens, cost, call=call))


def _shows(frame: Frame, command: FaultPage) -> bool:
    """Whether what is asked for stands in the working set already."""
    if not frame.parts:
        return frame.level <= command.level
    wanted = command.range
    return wanted is not None and any(_holds(part, wanted) for part in frame.parts)


def _holds(part: PagePart, wanted: Range) -> bool:
    if part.offset > wanted.offset or part.end is None:
        return part.offset <= wanted.offset
    return wanted.next_offset is not None and wanted.next_offset <= part.end


def _fault_part(
    decision: Decision,
    command: FaultPage,
    wanted: Range,
    found: Found,
    *,
    call: str | None,
) -> None:
    """Serve a part of FULL beside those that are there, as far as there is room.

    Parts that a request has shown already give way to it, oldest first.
    """
    entry = found.live
    if wanted.version != entry.version:
        raise StaleError
    frame = decision.paging.frames.get(entry.page_id)
    held = sorted(frame.parts, key=attrgetter("turn")) if frame else []
    room = deliverable(decision.state, entry.page_id)
    own = wanted.cost + weights.fetching(entry.page_id)
    while held and held[0].turn < decision.turn and _cost(held) + own > room:
        held.pop(0)
    cost = _cost(held) + own
    if refusal := _refusal(decision, command, wanted.tokens, cost):
        _refuse(decision, command, found, refusal)
        return
    part = PagePart(wanted.offset, wanted.next_offset, own, decision.turn)
    parts = tuple(sorted([*held, part], key=attrgetter("offset")))
    _serve(decision, command, found, _Serves(FULL, wanted.tokens, cost, parts, call))


def _cost(parts: Sequence[PagePart]) -> int:
    return sum(part.cost for part in parts)


def _refusal(
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
    if cost > deliverable(decision.state, command.page_id):
        return "no_room"
    return None


def deliverable(state: ThreadState, page_id: str) -> int:
    """Return the tokens that a fault of this page can take in the next request."""
    paging = state.paging
    most = precedence.room(state, page_id, DUE)
    if not pins.held(paging, page_id):
        return most
    frame = paging.frames.get(page_id)
    pinned = pins.pinned_tokens(paging) - (frame.tokens if frame else 0)
    return min(most, int(paging.settings.pinnable) - pinned)


def weigh(state: ThreadState, entry: Entry, level: int) -> int:
    """Return the tokens that the page takes once it is fetched at this level."""
    return weights.weight(entry, level, recalled=True)


def part_room(state: ThreadState, page_id: str) -> int:
    """Return the tokens for a part's text, beside those no request has shown yet."""
    frame = state.paging.frames.get(page_id)
    due = [p for p in (frame.parts if frame else ()) if p.turn == state.turn_count]
    room = deliverable(state, page_id) - _cost(due)
    return room - weights.fetching(page_id)


def _reference(decision: Decision, command: FaultPage, found: Found) -> None:
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


class _Serves(NamedTuple):
    """What a fault brings."""

    level: int
    tokens: int
    #: That the page takes then, in all.
    cost: int
    parts: tuple[PagePart, ...] = ()
    #: Digest of the id of the call that asked for it.
    call: str | None = None


def _serve(
    decision: Decision, command: FaultPage, found: Found, serves: _Serves
) -> None:
    entry = found.live
    frame = decision.paging.frames.get(entry.page_id)
    before = frame.level if frame else None
    tier = decision.paging.tier(entry.page_id) or entry.home
    # What is charged is delivered: that there is room was seen before.
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


def _refuse(
    decision: Decision, command: FaultPage, found: Found, refusal: Refused
) -> None:
    if decision.paging.spent.refusals >= REFUSALS_KEPT:
        raise refused(refusal)
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
    decision.emit(event, strict_json.as_sent(sealed))


def refused(word: Refused, **detail: int | str) -> Refusal:
    """Return the refusal that a fault.refused stands for."""
    return _REFUSALS[word](**detail)


_REFUSALS: dict[str, type[Refusal]] = {
    "page_unknown": PageUnknownError,
    "page_erased": PageErasedError,
    "fault_confidence": FaultConfidenceError,
    "fault_budget": FaultBudgetError,
    "fault_tokens": FaultBudgetError,
    "no_room": NoRoomError,
}


def cheaper_levels(entry: Entry, *, tokens_left: int) -> list[int]:
    """Return the levels that the tokens left would pay for, cheapest first."""
    levels = [n for n in (3, 2, 1, 0) if entry.levels[n] is not None]
    return [level for level in levels if entry.at(level).tokens <= tokens_left]
