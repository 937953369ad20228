"""Listing: updates the place in lists of threads that have fallen silent.

A busy thread's own appends move its place, at most every ten seconds; this worker adds
the last few events before a silence.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import F

from memoryhub import journal
from memoryhub.journal.log.heads import LISTED_EVERY
from memoryhub.journal.rows import listed_columns
from memoryhub.models.threads import Thread

BATCH = 1_000


def bring_up(now: datetime) -> int:
    """Update the columns that lists sort by; return how many threads moved."""
    behind = Thread.objects.filter(
        listed_at__lt=F("last_event_at"), listed_at__lte=now - LISTED_EVERY
    )
    moved = 0
    # Search on our own connection: the writer must not wait for a scan.
    while ids := list(behind.values_list("id", flat=True)[:BATCH]):
        moved += journal.run(partial(_move_threads, ids))
    return moved


def _move_threads(ids: list[UUID]) -> int:
    rows = Thread.objects.filter(id__in=ids)
    with transaction.atomic():
        # In the order in which writers lock threads: in any other, two processes could
        # wait for each other.
        found = rows.select_for_update().order_by("id").values_list("id", flat=True)
        rows = Thread.objects.filter(id__in=list(found))
        return rows.update(
            listed_at=F("last_event_at"), **listed_columns.build_expressions()
        )
