"""Metrics of paging: what look-ups, faults and evictions came to. Never writes."""

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
#: Turns that are told one by one.
TURNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts over some time; rates are None without samples."""

    counts: Counts

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def by(self, prefix: str) -> dict[str, int]:
        """Return the counters of one kind by their own words, e.g. faults by reason."""
        return {
            name.removeprefix(prefix): value
            for name, value in sorted(self.counts.items())
            if name.startswith(prefix) and value
        }

    @property
    def hit_rate(self) -> float | None:
        return _ratio(self.count("hits"), self.count("hits") + self.count("misses"))

    @property
    def fault_rate(self) -> float | None:
        faults = self.count("faults")
        return _ratio(faults, faults + self.count("referenced"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrashingVerdict:
    """Whether the thread thrashes: pages come back about as soon as they leave."""

    thrashing: bool
    #: Closed words: refaults, stuck.
    reasons: tuple[str, ...]
    pages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTally:
    """A turn that is over."""

    n: int
    tally: Tally
    #: Of the last exchanges, as of its end.
    resident_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Paging of a thread as of an event."""

    residency: Residency
    total: Tally
    #: Of the turn that goes on.
    turn: Tally
    #: Of the last turns that are over, newest first.
    turns: tuple[TurnTally, ...]
    verdict: ThrashingVerdict


def get_metrics(thread: Thread, state: ThreadState) -> Metrics:
    """Return the counts of paging. Six queries and a bounded fold.

    `thread` comes with its subject; a fork counts on from what it inherits.
    """
    found = get_residency(thread, state.seq)
    paging = state.paging
    total = projections.paging_counters(state)
    hits, misses = paging.turn_lookups
    began = {**dict(paging.turn_counts.items()), "hits": hits, "misses": misses}
    return Metrics(
        residency=found,
        total=Tally(counts=total),
        turn=Tally(counts=_moved(began, total)),
        turns=_by_turn(thread, state),
        verdict=_verdict(found),
    )


def _verdict(found: Residency) -> ThrashingVerdict:
    refaults = found.thrash_index >= THRASHING
    reasons = [*["refaults"] * refaults, *["stuck"] * found.stuck]
    pages = set(found.thrashing) if refaults else set()
    if found.stuck:
        pages |= {
            cell.page_id
            for cell in found.cells
            if cell.why.rule or cell.why.protected_until is not None
        }
    return ThrashingVerdict(
        thrashing=bool(reasons), reasons=tuple(reasons), pages=tuple(sorted(pages))
    )


def _by_turn(thread: Thread, state: ThreadState) -> tuple[TurnTally, ...]:
    rows = Turn.objects.filter(thread_id=thread.id, seq__lte=state.seq)
    kept = list(rows.order_by("-n").values_list("n", "counters")[: TURNS + 1])
    counted = [(n, orjson.loads(counters)) for n, counters in kept]
    return tuple(
        TurnTally(
            n=n,
            tally=Tally(counts=_moved(before, after)),
            resident_rate=projections.rate_of(after),
        )
        for (_, after), (n, before) in pairwise(counted)
    )


def _moved(before: Counts, after: Counts) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
