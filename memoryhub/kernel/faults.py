"""Page faults: the model asks for a page that is not before it. Pure.

Each exchange has a budget of faults and of tokens; a refusal is journaled, so that a
model which guesses ids can be seen.
"""

from __future__ import annotations

from memoryhub.errors import (
    FaultBudgetError,
    FaultConfidenceError,
    PageErasedError,
    PageUnknownError,
    Refusal,
)
from memoryhub.kernel import strict_json, working_set
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.lookups import Found, find
from memoryhub.kernel.page_commands import FaultPage
from memoryhub.kernel.page_events import (
    FaultRefused,
    PageFaulted,
    PageReferenced,
    Refused,
)
from memoryhub.kernel.pages import Entry
from memoryhub.kernel.paging import REFUSALS_KEPT
from memoryhub.kernel.paging_config import CONFIDENCES

#: How sure each reason is.
CONFIDENCE = {
    "user_requested_recall": "explicit",
    "resolve_reference": "referenced",
    "tool_prereq": "referenced",
    "speculative": "speculative",
}


def fault_page(course: Course, command: FaultPage, pages: PageTable) -> None:
    """Fetch a page back. Emits page.faulted, or page.referenced when it is mapped.

    A refusal emits fault.refused, of which an exchange keeps ten; beyond them it is
    raised. Nothing is charged for either.
    """
    found = find(course, command.page_id, pages)
    if found.entry is None:
        gone = pages.deleted(command.page_id)
        _refuse(course, command, found, "page_erased" if gone else "page_unknown")
        return
    frame = course.paging.frames.get(found.live.page_id)
    if frame is not None and frame.level <= command.level:
        _reference(course, command, found)
        return
    # What the fault would serve is known before anything is written for it.
    entry = working_set.with_made(found.live, command.made)
    level = entry.at_most(command.level)
    if refusal := _refusal(course, command, entry.at(level).tokens):
        _refuse(course, command, found, refusal)
        return
    found = working_set.write_made(course, found, command.made, by=command.by)
    _serve(course, command, found, level)


def _refusal(course: Course, command: FaultPage, tokens: int) -> Refused | None:
    settings, spent = course.paging.settings, course.paging.spent
    sure = CONFIDENCES.index(CONFIDENCE[command.reason])
    if sure < CONFIDENCES.index(settings.fault_confidence_threshold):
        return "fault_confidence"
    if spent.faults >= settings.max_faults_per_turn:
        return "fault_budget"
    if spent.tokens + tokens > settings.max_fault_tokens_per_turn:
        return "fault_tokens"
    return None


def _reference(course: Course, command: FaultPage, found: Found) -> None:
    course.emit(
        PageReferenced(
            turn=course.turn,
            cause="fault",
            by=command.by,
            page_id=found.live.page_id,
            how="fault",
            lookup=found.lookup,
            entry=found.read,
        )
    )


def _serve(course: Course, command: FaultPage, found: Found, level: int) -> None:
    entry = found.live
    frame = course.paging.frames.get(entry.page_id)
    tier = course.paging.tier(entry.page_id) or entry.home
    cost = entry.at(level).cost
    promoted = working_set.make_room(course, entry.page_id, cost)
    elsewhere = entry.page_id not in course.paging.hot and not frame
    displaced = course.displaced() if elsewhere and not promoted else None
    course.emit(
        PageFaulted(
            turn=course.turn,
            cause="upgrade" if frame else "fault",
            by=command.by,
            page_id=entry.page_id,
            level=level,  # type: ignore[arg-type]  # 0 to 3
            level_before=frame.level if frame else None,  # type: ignore[arg-type]  # 0 to 3
            tokens=entry.at(level).tokens,
            cost=cost,
            reason=command.reason,
            tier_before=tier,  # type: ignore[arg-type]  # closed words
            tier_after="L0" if promoted or frame else "L1",
            promoted=promoted,
            displaced=displaced,
            lookup=found.lookup,
            entry=found.read,
        )
    )
    course.cooled(entry.page_id)


def _refuse(course: Course, command: FaultPage, found: Found, refusal: Refused) -> None:
    if course.paging.spent.refusals >= REFUSALS_KEPT:
        raise refused(refusal)
    unknown = refusal == "page_unknown"
    event = FaultRefused(
        turn=course.turn,
        cause="fault",
        by=command.by,
        refusal=refusal,
        level=command.level,  # type: ignore[arg-type]  # 0 to 3
        page_id=None if unknown else command.page_id,
        reason=command.reason,
        lookup=found.lookup,
        entry=found.read,
    )
    asked = {"page_id": command.page_id} if unknown else {}
    course.emit(event, strict_json.as_sent(asked))


def refused(word: Refused, **detail: int | str) -> Refusal:
    """The refusal that a fault.refused stands for."""
    return _REFUSALS[word](**detail)


_REFUSALS: dict[str, type[Refusal]] = {
    "page_unknown": PageUnknownError,
    "page_erased": PageErasedError,
    "fault_confidence": FaultConfidenceError,
    "fault_budget": FaultBudgetError,
    "fault_tokens": FaultBudgetError,
}


def cheaper_levels(entry: Entry, *, tokens_left: int) -> list[int]:
    """Existing levels that the tokens left would pay for, cheapest first."""
    levels = [n for n in (3, 2, 1, 0) if entry.levels[n] is not None]
    return [level for level in levels if entry.at(level).tokens <= tokens_left]
