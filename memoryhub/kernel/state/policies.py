"""Eviction policies: functions from score parts to keep scores.

A policy gives every candidate a keep score from its parts. The page with the lowest
score leaves first; of equal scores the page with the older map seq.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log1p
from typing import NamedTuple

from rpds import HashTrieMap

from memoryhub.kernel.state.pages import PRIORITY, Modality, PageEntry
from memoryhub.kernel.state.paging import (
    Frame,
    Hot,
    Paging,
    Past,
    list_items,
    list_values,
)


class ScoreParts(NamedTuple):
    """Parts of a page's keep score; recency, value and penalty are 0.0-1.0."""

    #: Rank of the last reference: 0 for the oldest of all, 1 for the newest.
    recency: float
    #: Half importance, half reluctance of the page type to leave.
    value: float
    #: Degree to which evicting the page would be thrashing.
    penalty: float
    #: Turns since the last reference.
    idle_turns: int
    references: int
    #: Factor of the page's modality.
    weight: float = 1.0
    #: Rank in the order of `sieve`'s hand: 0 for the page that the hand takes first.
    queue: float = 0.0


#: Function from score parts to a keep score.
Keep = Callable[[ScoreParts], float]


@dataclass(frozen=True, slots=True)
class EvictionPolicy:
    """The keep scores of a working set's frames, and of the hot list's pages."""

    frame: Keep
    hot: Keep
    #: Score parts that explain a frame's score.
    parts: tuple[str, ...] = ("recency", "value", "penalty")
    #: Whether victims are chosen by a hand, and evictions carry no score.
    has_hand: bool = False


def _score_frame(parts: ScoreParts) -> float:
    return 0.4 * parts.recency + 0.4 * parts.value + 0.2 * parts.penalty


def _score_hot(parts: ScoreParts) -> float:
    often = min(1.0, log1p(parts.references) / 10)
    recent = 0.3 / (1 + parts.idle_turns)
    return recent + 0.2 * often + 0.3 * parts.value + 0.2 * parts.penalty


def _score_recency(parts: ScoreParts) -> float:
    return parts.recency


def _score_queue(parts: ScoreParts) -> float:
    return parts.queue


POLICIES: dict[str, EvictionPolicy] = {
    "importance_lru": EvictionPolicy(_score_frame, _score_hot),
    "lru": EvictionPolicy(_score_recency, _score_recency),
    "modality_lru": EvictionPolicy(
        lambda parts: parts.weight * _score_frame(parts),
        lambda parts: parts.weight * _score_hot(parts),
    ),
    "sieve": EvictionPolicy(_score_queue, _score_recency, ("queue",), has_hand=True),
}
#: Factors of `modality_lru`: what says least for its tokens leaves first.
WEIGHTS: dict[Modality, float] = {
    "text": 1.0,
    "structured": 0.9,
    "image": 0.5,
    "audio": 0.4,
    "video": 0.3,
}


def compute_value(entry: PageEntry) -> float:
    return 0.5 * entry.importance + 0.5 * (1 - PRIORITY[entry.type])


def compute_penalty(past: Past | None, paging: Paging, *, turn: int) -> float:
    """Compute the thrashing penalty of a page recently fetched or returned; else 0."""
    if past is None:
        return 0.0
    total = 0.0
    settings = paging.settings
    if (
        since := _count_turns_since_fault(past, turn, settings.protect_turns)
    ) is not None:
        total += 1 - since / settings.protect_turns
    if (
        since := _count_turns_since_return(past, turn, settings.cooldown_turns)
    ) is not None:
        total += 0.5 * (1 - since / settings.cooldown_turns)
    return min(1.0, total)


def is_protected(past: Past | None, paging: Paging, *, turn: int) -> bool:
    """Return whether a page is inside an anti-thrash window."""
    return compute_penalty(past, paging, turn=turn) > 0


def _count_turns_since_fault(past: Past, turn: int, window: int) -> int | None:
    """Count turns since the page's fault; None from `window` turns on."""
    if past.faulted_turn is None or turn - past.faulted_turn >= window:
        return None
    return turn - past.faulted_turn


def _count_turns_since_return(past: Past, turn: int, window: int) -> int | None:
    """Count turns since a returned page's eviction; None from `window` turns on."""
    if not past.back or past.evicted_turn is None:
        return None
    since = turn - past.evicted_turn
    return None if since >= window else since


def build_score_parts(
    pages: Sequence[Frame], paging: Paging, *, turn: int
) -> list[ScoreParts]:
    """Build the score parts of each page, with recency ranks among these pages."""
    seqs = [page.referenced_seq for page in pages]
    last = max(1, len(pages) - 1)
    ranks = {seq: rank / last for rank, seq in enumerate(sorted(seqs))}
    history: HashTrieMap[str, Past] | dict[str, Past] = paging.history
    if len(history) <= len(pages):
        # A look-up in a dictionary takes a third of one in a persistent map.
        history = dict(list_items(paging.history))
    queue = dict[str, float]()
    if POLICIES[paging.settings.policy].has_hand:
        order = paging.list_hand_order()
        places = max(1, len(order) - 1)
        queue = {frame.page_id: n / places for n, frame in enumerate(order)}
    return [
        ScoreParts(
            ranks[page.referenced_seq],
            compute_value(page.entry),
            compute_penalty(history.get(page.entry.page_id), paging, turn=turn),
            turn - page.referenced_turn,
            page.references,
            WEIGHTS[page.entry.modality],
            queue.get(page.page_id, 0.0),
        )
        for page in pages
    ]


def score_frames(paging: Paging, *, turn: int) -> dict[str, float]:
    """Compute the keep score of every frame, by page id."""
    frames = list_values(paging.frames)
    keep = POLICIES[paging.settings.policy].frame
    each = build_score_parts(frames, paging, turn=turn)
    return {f.page_id: keep(t) for f, t in zip(frames, each, strict=True)}


def score_hot_page(page: Hot, paging: Paging, *, turn: int) -> float:
    """Compute the keep score of a hot page, comparable with scores of later pages.

    The recency is the seq itself; each new page would move a rank.
    """
    past = paging.history.get(page.entry.page_id)
    return POLICIES[paging.settings.policy].hot(
        ScoreParts(
            recency=float(page.referenced_seq),
            value=compute_value(page.entry),
            penalty=compute_penalty(past, paging, turn=turn),
            idle_turns=turn - page.referenced_turn,
            references=page.references,
            weight=WEIGHTS[page.entry.modality],
        )
    )
