"""Imports: the recorded runs of a project, by where they came from. Never writes.

A run is a thread with a label `source` that is no fork: what an import makes, and what
an agent labels so itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db.models import Count, Max, Min, QuerySet, Sum

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.lists.cursors import Batch, Listing

SOURCE, REWARD = "source", "reward"
#: Different rewards of a batch of sources that are looked at, and bars of a picture.
REWARDS, BARS = 10_000, 12
_UNSEEN = (Thread.Status.IMPORTING, Thread.Status.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """The labels `reward` of a source's runs that are numbers."""

    count: int
    mean: float
    least: float
    most: float
    #: Runs by reward, from the least to the most; none if they are all the same.
    bars: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where runs came from, and what they hold together."""

    name: str
    runs: int
    slots: int
    turns: int
    rewards: Rewards | None
    #: When the first and the last of its runs came in.
    first_at: datetime
    last_at: datetime
    #: There are more different rewards than were looked at; some are left out.
    cut: bool = False


def list_sources(
    project: Project, *, after: str | None = None, limit: int = 50
) -> Batch[Source]:
    """List sources by name, with sums over all of their runs. Two queries.

    Raises BadCursorError when `after` is not of this very list.
    """
    listing = Listing(name="imports", project=project.id)
    behind = str(listing.open(after)[0]) if after is not None else ""
    found = _sums(project, after=behind, limit=limit + 1)
    batch, rest = found[:limit], found[limit:]
    return Batch(
        items=_sources(project, batch),
        next=listing.seal([batch[-1]["value"]]) if rest else None,
    )


def _labels(project: Project, name: str) -> QuerySet[ThreadLabel]:
    """The labels of this name on the runs of a project."""
    rows = ThreadLabel.objects.filter(project=project, name=name, thread__parent=None)
    return rows.exclude(thread__status__in=_UNSEEN)


def _sums(project: Project, *, after: str, limit: int) -> list[Mapping[str, Any]]:
    rows = _labels(project, SOURCE).filter(value__gt=after).order_by("value")
    sums: Iterable[Any] = rows.values("value").annotate(
        runs=Count("thread"),
        slots=Sum("thread__slot_count"),
        turns=Sum("thread__turn_count"),
        first_at=Min("thread__created_at"),
        last_at=Max("thread__created_at"),
    )[:limit]
    return list(sums)


def _sources(project: Project, sums: Sequence[Mapping[str, Any]]) -> tuple[Source, ...]:
    spread, cut = _spread(project, [row["value"] for row in sums])
    return tuple(
        Source(
            name=row["value"],
            runs=row["runs"],
            slots=row["slots"],
            turns=row["turns"],
            rewards=_rewards(spread.get(row["value"], {})),
            first_at=row["first_at"],
            last_at=row["last_at"],
            cut=cut,
        )
        for row in sums
    )


def _spread(
    project: Project, sources: Sequence[str]
) -> tuple[dict[str, dict[float, int]], bool]:
    """By source, how many of its runs have which reward; and whether some are cut."""
    rows = _labels(project, REWARD).filter(
        thread__thread_labels__name=SOURCE, thread__thread_labels__value__in=sources
    )
    pairs = rows.values_list("thread__thread_labels__value", "value").order_by(
        "thread__thread_labels__value", "value"
    )
    found = list(pairs.annotate(runs=Count("thread"))[: REWARDS + 1])
    spread: dict[str, dict[float, int]] = {}
    for source, text, runs in found[:REWARDS]:
        reward = _number(text)
        if reward is not None:
            counts = spread.setdefault(source, {})
            counts[reward] = counts.get(reward, 0) + runs
    return spread, len(found) > REWARDS


def _number(text: str) -> float | None:
    """A label's value as a number; None for a word, since any label may be one."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain else None


def _rewards(counts: Mapping[float, int]) -> Rewards | None:
    if not counts:
        return None
    total = sum(counts.values())
    return Rewards(
        count=total,
        # Each by its share: a sum of large ones could be no number any more.
        mean=sum(reward * (runs / total) for reward, runs in counts.items()),
        least=min(counts),
        most=max(counts),
        bars=_bars(counts),
    )


def _bars(counts: Mapping[float, int]) -> tuple[int, ...]:
    if len(counts) < 2:
        return ()
    least, most = min(counts) / 2, max(counts) / 2
    bars = [0] * BARS
    for reward, runs in counts.items():
        # Halves, since the whole way from the least to the most may be no number.
        bars[min(BARS - 1, int((reward / 2 - least) / (most - least) * BARS))] += runs
    return tuple(bars)
