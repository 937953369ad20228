"""Metrics of paging: counts of look-ups, faults and evictions. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import orjson

from memoryhub.journal.rows import projections
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.paging.residency import THRASHING, Residency, get_residency

Counts = Mapping[str, int]
#: Number of turns reported one by one.
TURNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingCounts:
    """Paging counts of a period; rates are None without samples."""

    counts: Counts

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def count_by_suffix(self, prefix: str) -> dict[str, int]:
        """Return counters with a common prefix by suffix, e.g. faults by reason."""
        return {
            name.removeprefix(prefix): value
            for name, value in sorted(self.counts.items())
            if name.startswith(prefix) and value
        }

    @property
    def hit_rate(self) -> float | None:
        return _compute_ratio(
            self.count("hits"), self.count("hits") + self.count("misses")
        )

    @property
    def fault_rate(self) -> float | None:
        faults = self.count("faults")
        return _compute_ratio(faults, faults + self.count("referenced"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrashingVerdict:
    """Whether the thread thrashes: pages return soon after each eviction."""

    thrashing: bool
    #: Closed set of words: refaults, stuck.
    reasons: tuple[str, ...]
    pages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTally:
    """Paging counts of a finished turn."""

    n: int
    tally: PagingCounts
    #: Rate over the latest exchanges, at the turn's end.
    resident_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingMetrics:
    """Paging of a thread as of an event."""

    residency: Residency
    total: PagingCounts
    #: Counts of the unfinished turn.
    turn: PagingCounts
    #: Counts of the latest finished turns, newest first.
    turns: tuple[TurnTally, ...]
    verdict: ThrashingVerdict


def get_metrics(thread: Thread, state: ThreadState) -> PagingMetrics:
    """Return the paging metrics of a thread. Six queries and a bounded fold.

    `thread` comes with its subject; a fork's counts continue those of its ancestors.
    """
    found = get_residency(thread, state.seq)
    paging = state.paging
    total = projections.count_paging(state)
    hits, misses = paging.turn_lookups
    began = {**dict(paging.turn_counts.items()), "hits": hits, "misses": misses}
    return PagingMetrics(
        residency=found,
        total=PagingCounts(counts=total),
        turn=PagingCounts(counts=_subtract_counts(began, total)),
        turns=_list_turns(thread, state),
        verdict=_build_verdict(found),
    )


def _build_verdict(found: Residency) -> ThrashingVerdict:
    refaults = found.thrash_index >= THRASHING
    reasons = [*["refaults"] * refaults, *["stuck"] * found.is_stuck]
    pages = set(found.thrashing) if refaults else set()
    if found.is_stuck:
        pages |= {
            cell.page_id
            for cell in found.cells
            if cell.why.rule or cell.why.protected_until is not None
        }
    return ThrashingVerdict(
        thrashing=bool(reasons), reasons=tuple(reasons), pages=tuple(sorted(pages))
    )


def _list_turns(thread: Thread, state: ThreadState) -> tuple[TurnTally, ...]:
    rows = Turn.objects.filter(thread_id=thread.id, seq__lte=state.seq)
    kept = list(rows.order_by("-n").values_list("n", "counters")[: TURNS + 1])
    counted = [(n, orjson.loads(counters)) for n, counters in kept]
    return tuple(
        TurnTally(
            n=n,
            tally=PagingCounts(counts=_subtract_counts(before, after)),
            resident_rate=projections.compute_rate(after),
        )
        for (_, after), (n, before) in pairwise(counted)
    )


def _subtract_counts(before: Counts, after: Counts) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}


def _compute_ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
