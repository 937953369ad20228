"""How much is observed at once, and when it takes effect. Pure; integers, in tokens.

The source of the numbers is the observations document; W is what is usable, M the
window of the model that is asked, None without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from memoryhub.kernel.paging import pins
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.state import ThreadState

#: Least and most of an interval; the most wins where the window is small.
LEAST: Final = 5_000
MOST: Final = 30_000
#: Of a message's line in a request, beside its text.
LINE: Final = 12
#: What an activation leaves at least, if that is less than all.
LEAST_LEFT: Final = 1_000
#: Of the log, until a reflection that failed is tried again.
GROWN: Final = 1_000


def window(settings: Settings) -> int:
    """Return W: what pages and the log may hold together."""
    return settings.usable + settings.log_tokens


def weight(tokens: int, slots: int) -> int:
    """Return what so many messages of so many tokens take in a request."""
    return tokens + LINE * slots


def uncovered(state: ThreadState) -> int:
    """Return what the messages take that no observation of the log stands for."""
    observing = state.observing
    return weight(
        state.token_count - observing.covered_tokens,
        state.slot_count - observing.covered_slots,
    )


def unobserved(state: ThreadState) -> int:
    """Return the raw tokens that no observation stands for, waiting or not."""
    return state.token_count - state.observing.observed_tokens


def need(state: ThreadState) -> int:
    """Return what a request takes that shows all: pins, log, uncovered messages."""
    paging = state.paging
    return pins.pinned_tokens(paging) + paging.settings.log_tokens + uncovered(state)


def cap(settings: Settings, model: int | None) -> int:
    """Return the most raw tokens that one observation is made of."""
    most = min(MOST, window(settings) // 4)
    return most if model is None else min(most, 3 * model // 5)


def interval(settings: Settings, need: int, model: int | None) -> int:
    """Return after how many unobserved tokens the observer is due."""
    remaining = max(0, int(settings.observe_at * window(settings)) - need)
    wanted = max(remaining // settings.observe_cycles, LEAST)
    return max(1, min(wanted, cap(settings, model)))


def keep(settings: Settings) -> int:
    """Return F: the raw tokens that an activation leaves."""
    return max(1, min(settings.observe_keep_tokens, window(settings) // 5))


def reflect_at(settings: Settings, model: int | None = None) -> int:
    """Return R: the length of the log at which it is condensed."""
    most = int(settings.reflect_at * window(settings))
    return max(1, most if model is None else min(most, model // 2))


def fold_to(settings: Settings) -> int:
    """Return the tokens to which a long log is folded without a model."""
    return max(1, reflect_at(settings) * 2 // 3)


def log_room(state: ThreadState) -> int:
    """Return what the log may grow by: it never takes more than half of the window."""
    settings = state.paging.settings
    return window(settings) // 2 - settings.log_tokens


def choose_end(
    begin: int, spoken: Sequence[tuple[int, str | None]], most: int, *, all_of: bool
) -> int | None:
    """Return where an observation ends that begins there; None where none can yet.

    After as many slots as `most` raw tokens hold, but after no calls without their
    results. `spoken` are tokens and role of the slots from `begin` on, `all_of` them to
    the end of the thread or not.
    """
    total, found = 0, None
    for number, (tokens, role) in enumerate(spoken, 1):
        total += tokens
        if found is not None and total > most:
            break
        if number < len(spoken):
            closed = spoken[number][1] != "tool"
        else:
            closed = all_of and role not in ("assistant", "tool")
        if closed:
            found = begin + number
    return found


def may_be_due(state: ThreadState) -> bool:
    """Return whether an observer should look at the thread: something may be due."""
    seen, chosen = state.observing, state.paging.settings
    if not chosen.observe or seen.paused or state.status != "open":
        return False
    behind = unobserved(state) >= min(LEAST, cap(chosen, None))
    return behind or bool(seen.gaps()) or reflecting(state, None) is not None


def is_behind(state: ThreadState, model: int | None) -> bool:
    """Return whether so much is unobserved that it is due, or there is a gap."""
    every = interval(state.paging.settings, need(state), model)
    return bool(state.observing.gaps()) or unobserved(state) >= every


def reflecting(state: ThreadState, model: int | None) -> Literal["now", "ahead"] | None:
    """Return whether the log is to be condensed: now, ahead of that, or not yet."""
    seen, length = state.observing, reflect_at(state.paging.settings, model)
    failed = seen.reflector
    if seen.ahead or (failed.times and seen.log_tokens < failed.log_tokens + GROWN):
        return None
    if seen.log_tokens >= length:
        return "now"
    return "ahead" if seen.log_tokens * 2 >= length else None


def is_due(state: ThreadState) -> bool:
    """Return whether buffered work is to take effect."""
    settings = state.paging.settings
    full = need(state) >= int(settings.observe_at * window(settings))
    return full and uncovered(state) > keep(settings)


def activated_to(state: ThreadState) -> int | None:
    """Return the slot that an activation moves the cursor to; None without any.

    After the fewest chunks in a row that leave no more than F; if that would leave
    hardly anything, after the most that leave more than F; after one at least.
    """
    settings = state.paging.settings
    most = keep(settings)
    left, ends = uncovered(state), list[tuple[int, int]]()
    room = log_room(state)
    for each in state.observing.chunks:
        room -= each.tokens
        if room < 0:
            break
        left -= weight(each.raw, each.end - each.begin)
        ends.append((each.end, left))
        if left <= most:
            break
    if not ends:
        return None
    if ends[-1][1] < min(LEAST_LEFT, most) and len(ends) > 1:
        return ends[-2][0]
    return ends[-1][0]
