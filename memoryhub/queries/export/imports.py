"""Imports: the recorded runs of a project, by their source. Never writes.

A run is a thread with a label `source` that is no fork. An import sets the label, or
an agent does.
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
from memoryhub.queries.lists.cursors import ListBatch, ListScope

SOURCE, REWARD = "source", "reward"
#: Most distinct rewards read for a batch of sources, and bars of a histogram.
REWARDS, BARS = 10_000, 12
_UNSEEN = (Thread.Status.IMPORTING, Thread.Status.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """Statistics of the numeric `reward` labels of a source's runs."""

    count: int
    mean: float
    least: float
    most: float
    #: Runs by reward, from the least to the most; empty if all rewards are equal.
    bars: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """A source of runs, with sums over the source's runs."""

    name: str
    runs: int
    slots: int
    turns: int
    rewards: Rewards | None
    #: When the source's first and last run were created.
    first_at: datetime
    last_at: datetime
    #: Whether `rewards` leaves some out: the batch has more distinct rewards than read.
    cut: bool = False


def list_sources(
    project: Project, *, after: str | None = None, limit: int = 50
) -> ListBatch[ImportSource]:
    """List sources by name, with sums over all of their runs. Two queries.

    Raises BadCursorError when the cursor `after` belongs to another list.
    """
    listing = ListScope(name="imports", project=project.id)
    behind = str(listing.open(after)[0]) if after is not None else ""
    found = _list_sums(project, after=behind, limit=limit + 1)
    batch, rest = found[:limit], found[limit:]
    return ListBatch(
        items=_build_sources(project, batch),
        next=listing.seal([batch[-1]["value"]]) if rest else None,
    )


def _select_labels(project: Project, name: str) -> QuerySet[ThreadLabel]:
    """Select the labels of this name on the runs of a project."""
    rows = ThreadLabel.objects.filter(project=project, name=name, thread__parent=None)
    return rows.exclude(thread__status__in=_UNSEEN)


def _list_sums(project: Project, *, after: str, limit: int) -> list[Mapping[str, Any]]:
    rows = _select_labels(project, SOURCE).filter(value__gt=after).order_by("value")
    sums: Iterable[Any] = rows.values("value").annotate(
        runs=Count("thread"),
        slots=Sum("thread__slot_count"),
        turns=Sum("thread__turn_count"),
        first_at=Min("thread__created_at"),
        last_at=Max("thread__created_at"),
    )[:limit]
    return list(sums)


def _build_sources(
    project: Project, sums: Sequence[Mapping[str, Any]]
) -> tuple[ImportSource, ...]:
    spread, cut = _count_rewards(project, [row["value"] for row in sums])
    return tuple(
        ImportSource(
            name=row["value"],
            runs=row["runs"],
            slots=row["slots"],
            turns=row["turns"],
            rewards=_build_rewards(spread.get(row["value"], {})),
            first_at=row["first_at"],
            last_at=row["last_at"],
            cut=cut,
        )
        for row in sums
    )


def _count_rewards(
    project: Project, sources: Sequence[str]
) -> tuple[dict[str, dict[float, int]], bool]:
    """Count the runs of each source by reward; the flag tells whether some are cut."""
    rows = _select_labels(project, REWARD).filter(
        thread__thread_labels__name=SOURCE, thread__thread_labels__value__in=sources
    )
    pairs = rows.values_list("thread__thread_labels__value", "value").order_by(
        "thread__thread_labels__value", "value"
    )
    found = list(pairs.annotate(runs=Count("thread"))[: REWARDS + 1])
    spread: dict[str, dict[float, int]] = {}
    for source, text, runs in found[:REWARDS]:
        reward = _parse_number(text)
        if reward is not None:
            counts = spread.setdefault(source, {})
            counts[reward] = counts.get(reward, 0) + runs
    return spread, len(found) > REWARDS


def _parse_number(text: str) -> float | None:
    """Parse a label's value as a number; None for a value that is no number."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain else None


def _build_rewards(counts: Mapping[float, int]) -> Rewards | None:
    if not counts:
        return None
    total = sum(counts.values())
    return Rewards(
        count=total,
        # Weigh each reward by its share: a sum of large rewards could overflow.
        mean=sum(reward * (runs / total) for reward, runs in counts.items()),
        least=min(counts),
        most=max(counts),
        bars=_count_bars(counts),
    )


def _count_bars(counts: Mapping[float, int]) -> tuple[int, ...]:
    if len(counts) < 2:
        return ()
    least, most = min(counts) / 2, max(counts) / 2
    bars = [0] * BARS
    for reward, runs in counts.items():
        # Halve both ends: the distance from the least to the most may overflow.
        bars[min(BARS - 1, int((reward / 2 - least) / (most - least) * BARS))] += runs
    return tuple(bars)
