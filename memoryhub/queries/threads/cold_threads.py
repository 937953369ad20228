"""Counts of threads in cold storage. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Sum

from memoryhub.models.cold import ColdObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdCounts:
    """Threads of a project in cold storage, and their bytes there."""

    #: Days after which closed threads move; None if they stay.
    days: int | None
    threads: int
    bytes: int
    #: Objects that wait to be deleted.
    ending: int


def get_cold_counts(project: UUID) -> ColdCounts:
    """Count a project's objects in cold storage. One query over these objects."""
    rows = ColdObject.objects.filter(thread__project=project).order_by()
    by_state = {
        state: (threads, objects, size)
        for state, threads, objects, size in rows.values_list("state").annotate(
            Count("thread", distinct=True), Count("id"), Sum("bytes")
        )
    }
    threads, _, size = by_state.pop(ColdObject.State.COLD, (0, 0, 0))
    return ColdCounts(
        days=settings.COLD_DAYS,
        threads=threads,
        bytes=size,
        ending=sum(objects for _, objects, _ in by_state.values()),
    )
