"""Formulas: how much is observed at once, and when it takes effect. Pure; in tokens.

All values are integers. The source of the numbers is the observations document. W is
the usable window; M is the window of the observing model, None without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.state import ThreadState

#: Least and most of an interval in tokens; the most wins if the window is small.
LEAST: Final = 5_000
MOST: Final = 30_000
#: Tokens of a message's line in a request, beside its text.
LINE: Final = 12
#: Least tokens that an activation leaves, if that is less than all.
LEAST_LEFT: Final = 1_000
#: Growth of the log in tokens until a failed reflection is tried again.
GROWN: Final = 1_000


def compute_window(settings: PagingSettings) -> int:
    """Return W: the tokens that pages and the log may have together."""
    return settings.usable + settings.log_tokens


def compute_weight(tokens: int, slots: int) -> int:
    """Return the tokens that messages of these tokens and slots take in a request."""
    return tokens + LINE * slots


def count_uncovered_tokens(state: ThreadState) -> int:
    """Return the tokens of messages that no observation in the log covers."""
    observing = state.observing
    return compute_weight(
        state.token_count - observing.covered_tokens,
        state.slot_count - observing.covered_slots,
    )


def count_unobserved_tokens(state: ThreadState) -> int:
    """Return the raw tokens that no observation covers, waiting or not."""
    return state.token_count - state.observing.observed_tokens


def compute_need(state: ThreadState) -> int:
    """Return the tokens of a request that shows all: pins, log, uncovered messages."""
    paging = state.paging
    return (
        pins.count_pinned_tokens(paging)
        + paging.settings.log_tokens
        + count_uncovered_tokens(state)
    )


def compute_cap(settings: PagingSettings, model: int | None) -> int:
    """Return the most raw tokens that one observation is made of."""
    most = min(MOST, compute_window(settings) // 4)
    return most if model is None else min(most, 3 * model // 5)


def compute_interval(settings: PagingSettings, need: int, model: int | None) -> int:
    """Return the number of unobserved tokens at which the observer is due."""
    remaining = max(0, int(settings.observe_at * compute_window(settings)) - need)
    wanted = max(remaining // settings.observe_cycles, LEAST)
    return max(1, min(wanted, compute_cap(settings, model)))


def compute_keep(settings: PagingSettings) -> int:
    """Return F: the raw tokens that an activation leaves."""
    return max(1, min(settings.observe_keep_tokens, compute_window(settings) // 5))


def compute_reflect_at(settings: PagingSettings, model: int | None = None) -> int:
    """Return R: the log's length in tokens at which it is condensed."""
    most = int(settings.reflect_at * compute_window(settings))
    return max(1, most if model is None else min(most, model // 2))


def compute_fold_to(settings: PagingSettings) -> int:
    """Return the tokens to which a long log is folded without a model."""
    return max(1, compute_reflect_at(settings) * 2 // 3)


def compute_log_room(state: ThreadState) -> int:
    """Return the tokens that the log may grow by, up to half of the window."""
    settings = state.paging.settings
    return compute_window(settings) // 2 - settings.log_tokens


def choose_end(
    begin: int, spoken: Sequence[tuple[int, str | None]], most: int, *, all_of: bool
) -> int | None:
    """Choose the slot where an observation from `begin` ends; None if there is none.

    The observation holds as many slots as fit `most` raw tokens, and never ends between
    calls and their results. `spoken` are tokens and role of the slots from `begin` on;
    `all_of` is True if they reach the end of the thread.
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


def can_be_due(state: ThreadState) -> bool:
    """Return whether an observer should look at the thread: something may be due."""
    seen, chosen = state.observing, state.paging.settings
    if not chosen.observe or seen.paused or state.status != "open":
        return False
    behind = count_unobserved_tokens(state) >= min(LEAST, compute_cap(chosen, None))
    return (
        behind or bool(seen.list_gaps()) or find_due_reflection(state, None) is not None
    )


def is_behind(state: ThreadState, model: int | None) -> bool:
    """Return whether enough tokens are unobserved to be due, or there is a gap."""
    every = compute_interval(state.paging.settings, compute_need(state), model)
    return bool(state.observing.list_gaps()) or count_unobserved_tokens(state) >= every


def find_due_reflection(
    state: ThreadState, model: int | None
) -> Literal["now", "ahead"] | None:
    """Return whether to condense the log: now, ahead of need, or not yet (None)."""
    seen, length = state.observing, compute_reflect_at(state.paging.settings, model)
    failed = seen.reflector
    if seen.ahead or (failed.times and seen.log_tokens < failed.log_tokens + GROWN):
        return None
    if seen.log_tokens >= length:
        return "now"
    return "ahead" if seen.log_tokens * 2 >= length else None


def is_due(state: ThreadState) -> bool:
    """Return whether buffered observations must take effect."""
    settings = state.paging.settings
    full = compute_need(state) >= int(settings.observe_at * compute_window(settings))
    return full and count_uncovered_tokens(state) > compute_keep(settings)


def find_activation_end(state: ThreadState) -> int | None:
    """Return the slot that an activation moves the cursor to; None without any.

    The activation takes the fewest chunks in a row that leave no more than F. If those
    chunks would leave hardly anything, the activation takes one chunk less, but at
    least one.
    """
    settings = state.paging.settings
    most = compute_keep(settings)
    left, ends = count_uncovered_tokens(state), list[tuple[int, int]]()
    room = compute_log_room(state)
    for each in state.observing.chunks:
        room -= each.tokens
        if room < 0:
            break
        left -= compute_weight(each.raw, each.end - each.begin)
        ends.append((each.end, left))
        if left <= most:
            break
    if not ends:
        return None
    if ends[-1][1] < min(LEAST_LEFT, most) and len(ends) > 1:
        return ends[-2][0]
    return ends[-1][0]
