"""Eviction: which pages leave the working set for others, by a policy. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from memoryhub.kernel.decision import Decision
from memoryhub.kernel.paging.eviction import groups, pins, precedence, weights
from memoryhub.kernel.paging.eviction.precedence import PINNED
from memoryhub.kernel.paging.lookups import PageLookup
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.page_events import By, Cause, PageEvicted, PageLowered
from memoryhub.kernel.state.pages import NEVER_LOWERED, PageEntry, Tier
from memoryhub.kernel.state.paging import Frame
from memoryhub.kernel.state.state import ThreadState


def free_up(
    decision: Decision, tokens: int, *, cause: Cause, sparing: str | None = None
) -> None:
    """Begin an eviction run when `tokens` more would pass `evict_at`.

    Freeing down to `evict_to` at once keeps the prompt's prefix stable between runs.
    """
    paging = decision.paging
    if tokens <= 0 and cause == "pressure":
        return
    if paging.used + tokens > paging.settings.high:
        _run_eviction(decision, tokens, cause=cause, sparing=sparing)


def list_victims(
    state: ThreadState, *, sparing: str | None = None, more: int = 0
) -> list[list[tuple[float, Frame]]]:
    """List evictable frames by ascending keep score: unprotected, protected, uncovered.

    `sparing` is the page that `more` tokens are for. Uncovered frames are messages of
    an observed thread that no observation stands for.
    """
    paging, turn = state.paging, state.turn_count
    kept = _collect_kept_pages(state, sparing, more)
    # Calls leave with the last of their results, and all stay with a pinned result.
    kept |= groups.list_heads(paging) | groups.list_companions(
        paging, kept, slots=state.slot_count
    )
    keep = policies.POLICIES[paging.settings.policy].frame
    frames = paging.list_oldest_first()
    each = policies.build_score_parts(frames, paging, turn=turn)
    passes: list[list[tuple[float, Frame]]] = [[], [], []]
    uncovered = precedence.list_uncovered(state)
    for frame, parts in zip(frames, each, strict=True):
        if frame.page_id not in kept:
            last = 2 if frame.page_id in uncovered else parts.penalty > 0
            passes[last].append((keep(parts), frame))
    for scored in passes:
        # The sort is stable: of equal scores, the page mapped first leaves first.
        scored.sort(key=itemgetter(0))
    return passes


def _collect_kept_pages(state: ThreadState, sparing: str | None, more: int) -> set[str]:
    """Return pages that must not leave: the pinned, and the page that gets the room."""
    pinned = pins.list_pinned(state)
    kept = precedence.list_kept_pages(state, pinned)
    if sparing is None:
        return kept | pinned.keys()
    if pins.is_charged_to_share(state.paging, sparing):
        pinned = pins.list_pinned(state, more=more)
    return {sparing} | kept | pinned.keys()


def _run_eviction(
    decision: Decision, tokens: int, *, cause: Cause, sparing: str | None
) -> None:
    """Free room until `tokens` more leave the set at `evict_to`.

    A lowered page may take the room of another page's computed pin, and that page may
    leave from then on. So passes follow as long as one changes something.
    """
    aim, before = decision.paging.settings.low - tokens, None
    while aim < decision.paging.used != before:
        before = decision.paging.used
        _run_pass(decision, aim, tokens, cause=cause, sparing=sparing)


def _run_pass(
    decision: Decision, aim: float, tokens: int, *, cause: Cause, sparing: str | None
) -> None:
    unprotected, protected, uncovered = list_victims(
        decision.state, sparing=sparing, more=tokens
    )
    lowered, kept = list[tuple[float, Frame]](), set[str]()
    for score, frame in unprotected:
        if decision.paging.used <= aim:
            return
        if frame.page_id in kept or frame.page_id not in decision.paging.frames:
            continue
        level = _find_lower_level(decision, frame)
        if level is None:
            evict(decision, frame, score=score, cause=cause, by_hand=True)
        else:
            lower_frame(decision, frame, level, score=score, cause=cause)
            lowered.append((score, frame))
            # The page may be small enough now for a pin that had no room before.
            kept = _collect_kept_pages(decision.state, sparing, tokens)
    # Protection is soft: the set must not freeze, even if no turn ever begins.
    _evict_down(decision, (*lowered, *protected), aim, kept=kept, cause=cause)
    # Uncovered messages only leave where there is no room at all.
    least = decision.paging.settings.usable - tokens
    _evict_down(decision, uncovered, least, kept=kept, cause=cause)


def _evict_down(
    decision: Decision,
    scored: Sequence[tuple[float, Frame]],
    aim: float,
    *,
    kept: set[str],
    cause: Cause,
) -> None:
    """Evict frames in order, except `kept`, until no more than `aim` is used."""
    for score, frame in scored:
        if decision.paging.used <= aim:
            return
        if frame.page_id not in kept and frame.page_id in decision.paging.frames:
            evict(decision, frame, score=score, cause=cause)


def _find_lower_level(decision: Decision, frame: Frame) -> int | None:
    """Find the next existing level, if its text is at most half as long.

    Only the text is compared, since the framing never gets shorter.
    """
    if not decision.paging.settings.lower_first or frame.entry.type in NEVER_LOWERED:
        return None
    if frame.parts or groups.can_have_results(
        decision.paging, frame, slots=decision.state.slot_count
    ):
        return None
    for level in range(frame.level + 1, 4):
        held = frame.entry.levels[level]
        if held is not None:
            half = held.tokens * 2 <= frame.entry.require_level(frame.level).tokens
            less = _weigh_frame(frame, level) < frame.tokens
            return level if half and less else None
    return None


def _weigh_frame(frame: Frame, level: int) -> int:
    return weights.weigh_page(frame.entry, level, recalled=frame.recalled)


def lower_frame(
    decision: Decision,
    frame: Frame,
    level: int,
    *,
    score: float | None = None,
    cause: Cause,
) -> None:
    """Replace a frame by a less faithful level, in place."""
    decision.emit(
        PageLowered(
            turn=decision.turn,
            cause=cause,
            by="system",
            page_id=frame.page_id,
            level=level,  # type: ignore[arg-type]  # 0 to 3
            level_before=frame.level,  # type: ignore[arg-type]  # 0 to 3
            tokens=_weigh_frame(frame, level),
            tokens_before=frame.tokens,
            score=_hide_score(decision, score),
            policy=decision.paging.settings.policy,
        )
    )


def evict(
    decision: Decision,
    frame: Frame,
    *,
    score: float | None = None,
    cause: Cause = "command",
    by: By = "system",
    found: PageLookup | None = None,
    by_hand: bool = False,
) -> None:
    """Take a frame out of the working set; its page becomes hot.

    The messages that make no sense without the page leave with it, unless they must
    stay. With `by_hand`, the hand of a policy that has one moves to the frame.
    """
    together = groups.list_group(
        decision.paging, frame, slots=decision.state.slot_count
    )
    policy = policies.POLICIES[decision.paging.settings.policy]
    hand = frame.mapped_seq if by_hand and policy.has_hand else None
    _emit_evicted(
        decision, frame, score=score, cause=cause, by=by, found=found, hand=hand
    )
    others = [each for each in together if each.page_id != frame.page_id]
    kept = precedence.list_kept_pages(decision.state) if others else ()
    for each in others:
        if each.page_id not in kept and each.page_id not in decision.paging.pins:
            _emit_evicted(decision, each, score=score, cause=cause, by=by)


def evict_covered(decision: Decision, frame: Frame) -> None:
    """Take out a message that an observation stands for from now on."""
    if frame.page_id in decision.paging.frames:
        _emit_evicted(decision, frame, score=None, cause="observed", by="system")


def evict_answered(decision: Decision, slot: int) -> None:
    """Take out a message that called our tools, and the results of these calls."""
    for frame in groups.list_answered(decision.paging, slot):
        if frame.page_id not in decision.paging.pins:
            _emit_evicted(decision, frame, score=None, cause="answered", by="system")


def _emit_evicted(
    decision: Decision,
    frame: Frame,
    *,
    score: float | None,
    cause: Cause,
    by: By,
    found: PageLookup | None = None,
    hand: int | None = None,
) -> None:
    tokens = decision.paging.frames[frame.page_id].tokens
    decision.emit_eviction(
        PageEvicted(
            turn=decision.turn,
            cause=cause,
            by=by,
            page_id=frame.page_id,
            tokens=tokens,
            score=_hide_score(decision, score),
            policy=decision.paging.settings.policy,
            tier_before="L0",
            tier_after="L1",
            lookup=found.lookup if found else None,
            entry=found.read if found else None,
            displaced=decision.take_displaced(),
            hand=hand,
        )
    )
    decision.note_hot_page(frame.page_id)


def _hide_score(decision: Decision, score: float | None) -> float | None:
    """Return the score as events carry it: none where a hand chooses the pages."""
    policy = policies.POLICIES[decision.paging.settings.policy]
    return None if policy.has_hand else score


def send_home(
    decision: Decision,
    entry: PageEntry,
    *,
    cause: Cause = "command",
    by: By = "system",
    found: PageLookup | None = None,
) -> None:
    """Take a page off the hot list."""
    home: Tier = entry.home  # type: ignore[assignment]  # closed words
    decision.emit(
        PageEvicted(
            turn=decision.turn,
            cause=cause,
            by=by,
            page_id=entry.page_id,
            tokens=0,
            policy=decision.paging.settings.policy,
            tier_before="L1",
            tier_after=home,
            lookup=found.lookup if found else None,
            entry=found.read if found else None,
        )
    )


def shrink(decision: Decision, *, cause: Cause = "shrink") -> None:
    """Evict the pages that no longer fit under the current settings."""
    free_up(decision, 0, cause=cause)
    if not _is_within_budget(decision):
        # Ranking all frames is expensive, and nearly always not needed.
        for name in precedence.list_below(decision.state, PINNED):
            if _is_within_budget(decision):
                break
            if name in decision.paging.frames:
                evict(decision, decision.paging.frames[name], cause=cause)
    while len(decision.paging.hot) > decision.paging.settings.l1_pages:
        page_id = decision.take_displaced()
        assert page_id is not None
        send_home(decision, decision.paging.hot[page_id].entry, cause=cause)


def _is_within_budget(decision: Decision) -> bool:
    return decision.paging.used <= decision.paging.settings.usable
