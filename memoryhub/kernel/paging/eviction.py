"""Eviction: what leaves the working set for what comes, by a policy. Pure."""

from __future__ import annotations

from operator import itemgetter

from memoryhub.kernel.course import Course
from memoryhub.kernel.paging import groups, pins, precedence, weights
from memoryhub.kernel.paging.lookups import Found
from memoryhub.kernel.paging.precedence import PINNED
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.page_events import By, Cause, PageEvicted, PageLowered
from memoryhub.kernel.state.pages import NEVER_LOWERED, Entry, Tier
from memoryhub.kernel.state.paging import Frame


def free_up(
    course: Course, tokens: int, *, cause: Cause, sparing: str | None = None
) -> None:
    """Begin an eviction run when `tokens` more would pass `evict_at`.

    Freeing down to `evict_to` at once keeps the prompt's prefix stable between runs.
    """
    paging = course.paging
    if tokens <= 0 and cause == "pressure":
        return
    if paging.used + tokens > paging.settings.high:
        _run(course, tokens, cause=cause, sparing=sparing)


def victims(
    course: Course, *, sparing: str | None = None, more: int = 0
) -> list[list[tuple[float, Frame]]]:
    """Who may leave, by ascending keep score: the unprotected, then the protected.

    `sparing` is the page that `more` tokens are for.
    """
    paging, turn = course.paging, course.turn
    kept = _kept(course, sparing, more)
    # What leads results leaves with the last of them, and all stay with a pinned one.
    kept |= groups.heads(paging) | groups.leave_together(
        paging, kept, slots=course.state.slot_count
    )
    keep = policies.POLICIES[paging.settings.policy].frame
    frames = paging.oldest_first()
    each = policies.terms(frames, paging, turn=turn)
    passes: list[list[tuple[float, Frame]]] = [[], []]
    for frame, terms in zip(frames, each, strict=True):
        if frame.page_id not in kept:
            passes[terms.penalty > 0].append((keep(terms), frame))
    for scored in passes:
        # Stable, so the page that was mapped first goes first among its equals.
        scored.sort(key=itemgetter(0))
    return passes


def _kept(course: Course, sparing: str | None, more: int) -> set[str]:
    """Pages that must not leave: the pinned, and the one that all this is for."""
    kept = precedence.kept(course.state)
    if sparing is None:
        return kept | pins.pinned(course.state).keys()
    growing = pins.held(course.paging, sparing)
    pinned = pins.pinned(course.state, more=more if growing else 0)
    return {sparing} | kept | pinned.keys()


def _run(course: Course, tokens: int, *, cause: Cause, sparing: str | None) -> None:
    """Free room until `tokens` more leave the set at `evict_to`.

    What is lowered may take the room of another's computed pin, whose page may leave
    from then on: so as long as a pass changes something, another follows.
    """
    aim, before = course.paging.settings.low - tokens, None
    while aim < course.paging.used != before:
        before = course.paging.used
        _pass(course, aim, tokens, cause=cause, sparing=sparing)


def _pass(
    course: Course, aim: float, tokens: int, *, cause: Cause, sparing: str | None
) -> None:
    unprotected, protected = victims(course, sparing=sparing, more=tokens)
    lowered, kept = list[tuple[float, Frame]](), set[str]()
    for score, frame in unprotected:
        if course.paging.used <= aim:
            return
        if frame.page_id in kept or frame.page_id not in course.paging.frames:
            continue
        level = _lower_level(course, frame)
        if level is None:
            evict(course, frame, score=score, cause=cause)
        else:
            lower(course, frame, level, score=score, cause=cause)
            lowered.append((score, frame))
            # It may be small enough now for a pin that had no room for it before.
            kept = _kept(course, sparing, tokens)
    # Protection is soft: the set must not freeze, even if no turn ever begins.
    for score, frame in (*lowered, *protected):
        if course.paging.used <= aim:
            return
        if frame.page_id not in kept and frame.page_id in course.paging.frames:
            evict(course, frame, score=score, cause=cause)


def _lower_level(course: Course, frame: Frame) -> int | None:
    """The next existing level, if going there saves at least half of the text.

    Of the text, for that is what half is made of: what frames it never gets shorter.
    """
    if not course.paging.settings.lower_first or frame.entry.type in NEVER_LOWERED:
        return None
    if frame.parts or groups.calls(course.paging, frame, slots=course.state.slot_count):
        return None
    for level in range(frame.level + 1, 4):
        held = frame.entry.levels[level]
        if held is not None:
            half = held.tokens * 2 <= frame.entry.at(frame.level).tokens
            less = _weigh(course, frame, level) < frame.tokens
            return level if half and less else None
    return None


def _weigh(course: Course, frame: Frame, level: int) -> int:
    settings, entry = course.paging.settings, frame.entry
    return weights.weight(settings, entry, level, recalled=frame.recalled)


def lower(
    course: Course,
    frame: Frame,
    level: int,
    *,
    score: float | None = None,
    cause: Cause,
) -> None:
    """Replace a frame by a less faithful level, in place."""
    course.emit(
        PageLowered(
            turn=course.turn,
            cause=cause,
            by="system",
            page_id=frame.page_id,
            level=level,  # type: ignore[arg-type]  # 0 to 3
            level_before=frame.level,  # type: ignore[arg-type]  # 0 to 3
            tokens=_weigh(course, frame, level),
            tokens_before=frame.tokens,
            score=score,
            policy=course.paging.settings.policy,
        )
    )


def evict(
    course: Course,
    frame: Frame,
    *,
    score: float | None = None,
    cause: Cause = "command",
    by: By = "system",
    found: Found | None = None,
) -> None:
    """Take a frame out of the working set; its page becomes hot.

    With the messages that it makes no sense without, but for those that must stay.
    """
    together = groups.group(course.paging, frame, slots=course.state.slot_count)
    _leave(course, frame, score=score, cause=cause, by=by, found=found)
    others = [each for each in together if each.page_id != frame.page_id]
    kept = precedence.kept(course.state) if others else ()
    for each in others:
        if each.page_id not in kept and each.page_id not in course.paging.pins:
            _leave(course, each, score=score, cause=cause, by=by)


def evict_answered(course: Course, slot: int) -> None:
    """Take out a message that called tools of ours, and what these answered."""
    for frame in groups.answered(course.paging, slot):
        if frame.page_id not in course.paging.pins:
            _leave(course, frame, score=None, cause="answered", by="system")


def _leave(
    course: Course,
    frame: Frame,
    *,
    score: float | None,
    cause: Cause,
    by: By,
    found: Found | None = None,
) -> None:
    tokens = course.paging.frames[frame.page_id].tokens
    course.emit(
        PageEvicted(
            turn=course.turn,
            cause=cause,
            by=by,
            page_id=frame.page_id,
            tokens=tokens,
            score=score,
            policy=course.paging.settings.policy,
            tier_before="L0",
            tier_after="L1",
            lookup=found.lookup if found else None,
            entry=found.read if found else None,
            displaced=course.displaced(),
        )
    )
    course.cooled(frame.page_id)


def send_home(
    course: Course,
    entry: Entry,
    *,
    cause: Cause = "command",
    by: By = "system",
    found: Found | None = None,
) -> None:
    """Take a page off the hot list."""
    home: Tier = entry.home  # type: ignore[assignment]  # closed words
    course.emit(
        PageEvicted(
            turn=course.turn,
            cause=cause,
            by=by,
            page_id=entry.page_id,
            tokens=0,
            policy=course.paging.settings.policy,
            tier_before="L1",
            tier_after=home,
            lookup=found.lookup if found else None,
            entry=found.read if found else None,
        )
    )


def shrink(course: Course, *, cause: Cause = "shrink") -> None:
    """Let go of what no longer fits by the settings the course goes by now."""
    free_up(course, 0, cause=cause)
    for name in precedence.below(course.state, PINNED):
        if course.paging.used <= course.paging.settings.usable:
            break
        if name in course.paging.frames:
            evict(course, course.paging.frames[name], cause=cause)
    while len(course.paging.hot) > course.paging.settings.l1_pages:
        page_id = course.displaced()
        assert page_id is not None
        send_home(course, course.paging.hot[page_id].entry, cause=cause)
