"""Eviction policies: how much a page deserves to stay. Data, one contract for all.

A policy gives every candidate a keep score from its parts; the lowest score goes
first, ties by the older map seq.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log1p
from typing import NamedTuple

from memoryhub.kernel.state.pages import PRIORITY, Entry
from memoryhub.kernel.state.paging import Frame, Hot, Paging, Past, listed, values


class ScoreParts(NamedTuple):
    """What a keep score is made of, each 0.0-1.0."""

    #: Rank of the last reference: 0 for the oldest of all, 1 for the newest.
    recency: float
    #: Half importance, half how unwillingly the type leaves.
    value: float
    #: How much evicting it would be thrashing.
    penalty: float
    #: Turns since the last reference.
    idle_turns: int
    references: int


#: From its parts to a keep score.
Keep = Callable[[ScoreParts], float]


@dataclass(frozen=True, slots=True)
class Policy:
    """The keep scores of a working set's frames, and of the hot list's pages."""

    frame: Keep
    hot: Keep


def _importance_frame(parts: ScoreParts) -> float:
    return 0.4 * parts.recency + 0.4 * parts.value + 0.2 * parts.penalty


def _importance_hot(parts: ScoreParts) -> float:
    often = min(1.0, log1p(parts.references) / 10)
    recent = 0.3 / (1 + parts.idle_turns)
    return recent + 0.2 * often + 0.3 * parts.value + 0.2 * parts.penalty


def _recency(parts: ScoreParts) -> float:
    return parts.recency


POLICIES: dict[str, Policy] = {
    "importance_lru": Policy(_importance_frame, _importance_hot),
    "lru": Policy(_recency, _recency),
}


def value(entry: Entry) -> float:
    return 0.5 * entry.importance + 0.5 * (1 - PRIORITY[entry.type])


def penalty(past: Past | None, paging: Paging, *, turn: int) -> float:
    """Return how recently the page was fetched, or left and returned; 0 if long ago."""
    if past is None:
        return 0.0
    total = 0.0
    settings = paging.settings
    if (since := _since_fault(past, turn, settings.protect_turns)) is not None:
        total += 1 - since / settings.protect_turns
    if (since := _since_return(past, turn, settings.cooldown_turns)) is not None:
        total += 0.5 * (1 - since / settings.cooldown_turns)
    return min(1.0, total)


def protected(past: Past | None, paging: Paging, *, turn: int) -> bool:
    """Return whether a page is inside an anti-thrash window."""
    return penalty(past, paging, turn=turn) > 0


def _since_fault(past: Past, turn: int, window: int) -> int | None:
    """Turns since the fault, if fewer than the window."""
    if past.faulted_turn is None or turn - past.faulted_turn >= window:
        return None
    return turn - past.faulted_turn


def _since_return(past: Past, turn: int, window: int) -> int | None:
    """Turns since the eviction of a page that is back, if fewer than the window."""
    if not past.back or past.evicted_turn is None:
        return None
    since = turn - past.evicted_turn
    return None if since >= window else since


def score_parts(
    pages: Sequence[Frame], paging: Paging, *, turn: int
) -> list[ScoreParts]:
    """Return the score parts of each page, ranked among themselves."""
    seqs = [page.referenced_seq for page in pages]
    last = max(1, len(pages) - 1)
    ranks = {seq: rank / last for rank, seq in enumerate(sorted(seqs))}
    history = dict(listed(paging.history))
    return [
        ScoreParts(
            ranks[page.referenced_seq],
            value(page.entry),
            penalty(history.get(page.entry.page_id), paging, turn=turn),
            turn - page.referenced_turn,
            page.references,
        )
        for page in pages
    ]


def frame_scores(paging: Paging, *, turn: int) -> dict[str, float]:
    """Return the keep score of every frame."""
    frames = values(paging.frames)
    keep = POLICIES[paging.settings.policy].frame
    each = score_parts(frames, paging, turn=turn)
    return {f.page_id: keep(t) for f, t in zip(frames, each, strict=True)}


def hot_score(page: Hot, paging: Paging, *, turn: int) -> float:
    """Return the keep score of a hot page; comparable with those of pages yet to come.

    Its recency is the seq itself, not a rank, which every newcomer would move.
    """
    past = paging.history.get(page.entry.page_id)
    return POLICIES[paging.settings.policy].hot(
        ScoreParts(
            recency=float(page.referenced_seq),
            value=value(page.entry),
            penalty=penalty(past, paging, turn=turn),
            idle_turns=turn - page.referenced_turn,
            references=page.references,
        )
    )
