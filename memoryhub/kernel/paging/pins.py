"""Pins: what eviction leaves alone. Some are set, most are computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from operator import attrgetter

from memoryhub.errors import PinBudgetError
from memoryhub.kernel.state.pages import SYSTEM_PROMPT, system_prompt
from memoryhub.kernel.state.paging import Frame, Paging, listed, values
from memoryhub.kernel.state.state import ThreadState


def pinned(state: ThreadState, *, more: int = 0) -> dict[str, str]:
    """Return every pinned frame's page and the rule that pins it.

    `explicit` and `system` first; then, within what they leave of the share:
    `exchange` (since the last user slot), `recent` (the last turns) and `claim`. `more`
    is what the first two are about to take on top.
    """
    paging = state.paging
    explicit = _explicit(paging)
    rules = {frame.page_id: "explicit" for frame in explicit}
    left = paging.settings.pinnable - more - sum(f.tokens for f in explicit)
    for rule, frames, share in _computed(state):
        room = min(left, share)
        for frame in frames:
            if frame.page_id not in rules and frame.tokens <= room:
                rules[frame.page_id] = rule
                room -= frame.tokens
                left -= frame.tokens
    return rules


def _explicit(paging: Paging) -> list[Frame]:
    frames = paging.frames
    return [frames[page_id] for page_id, _ in listed(paging.pins) if page_id in frames]


def _computed(state: ThreadState) -> Iterable[tuple[str, list[Frame], float]]:
    """Rule, frames in the order they claim the share, and what the rule may have."""
    paging, settings = state.paging, state.paging.settings
    frames = values(paging.frames)
    frames.sort(key=attrgetter("entry.created_seq"), reverse=True)
    if settings.auto_pin_system:
        # Its own page first: that was refused rather than let go beyond the share.
        prompt = [f for f in frames if system_prompt(f.entry)]
        prompt.sort(key=lambda f: (f.page_id != SYSTEM_PROMPT, f.mapped_seq))
        yield "system", prompt, settings.pinnable
    if paging.last_user is not None:
        since = paging.last_user.seq
        exchange = [*takewhile(lambda f: f.entry.created_seq >= since, frames)]
        # The user's own message first: without it nothing can be answered.
        exchange.sort(key=lambda frame: frame.entry.created_seq != since)
        yield "exchange", exchange, settings.pinnable
    first = state.turn_count - settings.auto_pin_turns
    # Newer pages are of later turns.
    recent = [*takewhile(lambda f: f.entry.created_turn > first, frames)]
    yield "recent", recent, settings.pinnable
    if settings.auto_pin_claims:
        claims = [f for f in frames if f.entry.type == "claim"]
        claims.sort(key=lambda frame: -frame.entry.importance)
        yield "claim", claims, settings.claim_share * settings.usable


def held(paging: Paging, page_id: str) -> bool:
    """Return whether the page, once mapped, counts against the pinned share.

    Those pinned by a command, and the system prompt by its own route. Slots of role
    system come after them: they are left unpinned rather than refused.
    """
    if page_id == SYSTEM_PROMPT and paging.settings.auto_pin_system:
        return True
    return page_id in paging.pins


def pinned_tokens(paging: Paging) -> int:
    """Count the tokens that pinned frames hold together."""
    frames = _explicit(paging)
    own = paging.frames.get(SYSTEM_PROMPT)
    if own and SYSTEM_PROMPT not in paging.pins and held(paging, SYSTEM_PROMPT):
        frames.append(own)
    return sum(frame.tokens for frame in frames)


def shared(paging: Paging, *, more: int = 0) -> bool:
    """Return whether pins stay within their share with `more` tokens on top."""
    return pinned_tokens(paging) + more <= paging.settings.pinnable


def require_share(paging: Paging, *, more: int = 0) -> None:
    """Raise PinBudgetError when pins would not stay within their share."""
    if not shared(paging, more=more):
        raise PinBudgetError(
            pinned_tokens=pinned_tokens(paging) + more,
            allowed_tokens=int(paging.settings.pinnable),
        )


def largest(paging: Paging, page_id: str) -> float:
    """Return the tokens beyond which a level of the page is never mapped.

    Room for so many is left whatever is pinned; a page that is pinned itself needs none
    beside the pins.
    """
    settings = paging.settings
    if held(paging, page_id):
        return max(settings.pinnable, settings.largest)
    return settings.largest
