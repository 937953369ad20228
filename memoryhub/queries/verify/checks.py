"""Checks: is all well with paging, as numbers against thresholds. Never writes."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.state.paging import lately
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.catalogue import (
    ENOUGH_EXCHANGES,
    ENOUGH_LOOKUPS,
    THRASHING_REFAULTS,
)
from memoryhub.queries.threads.threads import Rates

#: Threads that are looked at: those that were active last.
WINDOW = 1_000
LEAST_RESIDENT_RATE, LEAST_HIT_RATE = 0.50, 0.60


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks(Rates):
    """What the threads that were active last have in common."""

    threads: int
    thrashing: int

    @property
    def resident_enough(self) -> bool | None:
        """None when there are too few samples to tell."""
        rate = self.resident_rate
        if rate is None or self.exchanges_lately < ENOUGH_EXCHANGES:
            return None
        return rate >= LEAST_RESIDENT_RATE

    @property
    def hits_enough(self) -> bool | None:
        """None when there are too few samples to tell."""
        if self.lookups < ENOUGH_LOOKUPS:
            return None
        return self.hits / self.lookups >= LEAST_HIT_RATE


def get_checks(project: Project) -> Checks:
    """Sums over the `WINDOW` threads that were active last. One query."""
    rows = Thread.objects.filter(project=project, status=Thread.Status.OPEN)
    newest = rows.order_by("-listed_at", "id")[:WINDOW]
    counted = newest.values_list(
        *("tlb_hits", "tlb_misses", "refault_count"),
        *("exchange_count", "faulted_lately_count"),
    )
    found = list(counted)
    return Checks(
        threads=len(found),
        hits=sum(row[0] for row in found),
        misses=sum(row[1] for row in found),
        thrashing=sum(row[2] >= THRASHING_REFAULTS for row in found),
        exchanges_lately=sum(lately(row[3]) for row in found),
        faulted_lately=sum(row[4] for row in found),
    )
