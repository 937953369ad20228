"""Pins: pages that eviction must not take. Some are set, most are computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from operator import attrgetter

from memoryhub.errors import PinBudgetError
from memoryhub.kernel.state.pages import SYSTEM_PROMPT, is_system_prompt
from memoryhub.kernel.state.paging import Frame, Paging, list_items, list_values
from memoryhub.kernel.state.state import ThreadState


def list_pinned(state: ThreadState, *, more: int = 0) -> dict[str, str]:
    """Return every pinned frame's page and the rule that pins it.

    `explicit` and `system` come first. The rest of the share goes to `exchange` (since
    the last user slot), `recent` (the last turns) and `claim`. `more` is the room that
    the first two rules are about to take in addition.
    """
    paging = state.paging
    explicit = _list_explicit(paging)
    rules = {frame.page_id: "explicit" for frame in explicit}
    left = paging.settings.pinnable - more - sum(f.tokens for f in explicit)
    for rule, frames, share in _iter_computed(state):
        room = min(left, share)
        for frame in frames:
            if frame.page_id not in rules and frame.tokens <= room:
                rules[frame.page_id] = rule
                room -= frame.tokens
                left -= frame.tokens
    return rules


def _list_explicit(paging: Paging) -> list[Frame]:
    frames = paging.frames
    return [
        frames[page_id] for page_id, _ in list_items(paging.pins) if page_id in frames
    ]


def _iter_computed(state: ThreadState) -> Iterable[tuple[str, list[Frame], float]]:
    """Yield each rule, its frames in the order they claim the share, and its limit."""
    paging, settings = state.paging, state.paging.settings
    frames = list_values(paging.frames)
    frames.sort(key=attrgetter("entry.created_seq"), reverse=True)
    if settings.auto_pin_system:
        # The system prompt's own page first: a prompt beyond the share was refused.
        prompt = [f for f in frames if is_system_prompt(f.entry)]
        prompt.sort(key=lambda f: (f.page_id != SYSTEM_PROMPT, f.mapped_seq))
        yield "system", prompt, settings.pinnable
    if paging.last_user is not None:
        since = paging.last_user.seq
        exchange = [*takewhile(lambda f: f.entry.created_seq >= since, frames)]
        # The user's own message first: without it the model has nothing to answer.
        exchange.sort(key=lambda frame: frame.entry.created_seq != since)
        yield "exchange", exchange, settings.pinnable
    first = state.turn_count - settings.auto_pin_turns
    # Newer pages belong to later turns.
    recent = [*takewhile(lambda f: f.entry.created_turn > first, frames)]
    yield "recent", recent, settings.pinnable
    if settings.auto_pin_claims:
        claims = [f for f in frames if f.entry.type == "claim"]
        claims.sort(key=lambda frame: -frame.entry.importance)
        yield "claim", claims, settings.claim_share * settings.usable


def is_charged_to_share(paging: Paging, page_id: str) -> bool:
    """Return whether the page, once mapped, counts against the pinned share.

    Pages pinned by a command count, and the system prompt set by its own route. Slots
    of role system come after these pages: such slots are left unpinned rather than
    refused.
    """
    if page_id == SYSTEM_PROMPT and paging.settings.auto_pin_system:
        return True
    return page_id in paging.pins


def count_pinned_tokens(paging: Paging) -> int:
    """Count the tokens of all pinned frames."""
    frames = _list_explicit(paging)
    own = paging.frames.get(SYSTEM_PROMPT)
    if (
        own
        and SYSTEM_PROMPT not in paging.pins
        and is_charged_to_share(paging, SYSTEM_PROMPT)
    ):
        frames.append(own)
    return sum(frame.tokens for frame in frames)


def has_share_left(paging: Paging, *, more: int = 0) -> bool:
    """Return whether pins stay within their share with `more` tokens on top."""
    return count_pinned_tokens(paging) + more <= paging.settings.pinnable


def require_share(paging: Paging, *, more: int = 0) -> None:
    """Raise PinBudgetError when pins would not stay within their share."""
    if not has_share_left(paging, more=more):
        raise PinBudgetError(
            pinned_tokens=count_pinned_tokens(paging) + more,
            allowed_tokens=int(paging.settings.pinnable),
        )


def compute_largest(paging: Paging, page_id: str) -> float:
    """Return the tokens beyond which a level of the page is never mapped.

    That much room is left whatever is pinned. A page that is pinned itself needs no
    room beside the pins.
    """
    settings = paging.settings
    if is_charged_to_share(paging, page_id):
        return max(settings.pinnable, settings.largest)
    return settings.largest
