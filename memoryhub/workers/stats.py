"""Stats: sums over each project's threads, so that reading them is cheap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, Sum

from memoryhub import journal
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.threads import Thread

_COUNTED = ("open", "closed", "retired", "erased")
_SUMS = (
    *(f"{status}_threads" for status in _COUNTED),
    "nearly_full_threads",
    "slots",
    "tokens",
    "bytes",
)
BATCH = 500


def take(now: datetime) -> int:
    """Recompute every project's sums; return how many projects. Three statements.

    Bytes and tokens are those of threads that can still be read.
    """
    sums: dict[UUID, dict[str, int]] = {
        project: dict.fromkeys(_SUMS, 0)
        for project in Project.objects.values_list("id", flat=True)
    }
    for row in _list_grouped():
        if row["project_id"] in sums:
            _add_sums(sums[row["project_id"]], row)
    rows = [
        ProjectStats(project_id=project, taken_at=now, **sum_)
        for project, sum_ in sums.items()
    ]
    journal.run(lambda: _write_rows(rows))
    return len(rows)


def _list_grouped() -> Iterable[Mapping[str, Any]]:
    seen = Thread.objects.filter(home=False).order_by()
    grouped = seen.values("project_id", "status")
    rows: Iterable[Any] = grouped.annotate(
        threads=Count("id"),
        full=Count("id", filter=Q(nearly_full=True)),
        slots_sum=Sum("slot_count"),
        tokens_sum=Sum("token_count"),
        bytes_sum=Sum("byte_count"),
    )
    return rows


def _add_sums(sums: dict[str, int], row: Mapping[str, Any]) -> None:
    status = row["status"]
    if status in _COUNTED:
        sums[f"{status}_threads"] += row["threads"]
    if status in ("open", "closed"):
        sums["nearly_full_threads"] += row["full"]
        for name in ("slots", "tokens", "bytes"):
            sums[name] += row[f"{name}_sum"]


def _write_rows(rows: list[ProjectStats]) -> None:
    ProjectStats.objects.bulk_create(
        rows,
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["project"],
        update_fields=["taken_at", *_SUMS],
    )
