"""Checks: is all well with paging, as numbers against thresholds. Never writes."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.catalogue import ENOUGH_LOOKUPS, THRASHING_REFAULTS
from memoryhub.queries.threads import LookUps

#: Threads that are looked at: those that were active last.
WINDOW = 1_000
LEAST_HIT_RATE = 0.60


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks(LookUps):
    """What the threads that were active last have in common."""

    threads: int
    thrashing: int

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
    counted = list(newest.values_list("tlb_hits", "tlb_misses", "refault_count"))
    return Checks(
        threads=len(counted),
        hits=sum(hits for hits, _, _ in counted),
        misses=sum(misses for _, misses, _ in counted),
        thrashing=sum(refaults >= THRASHING_REFAULTS for _, _, refaults in counted),
    )
