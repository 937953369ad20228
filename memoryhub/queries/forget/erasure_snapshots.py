"""Snapshots of threads that stay: an erasure takes them, and makes them anew.

Never writes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from django.db.models import Max

from memoryhub.journal.forget import erasing
from memoryhub.models.events import Event, Snapshot
from memoryhub.queries.forget.erasure_counts import Range

#: Threads that one statement looks through.
_AT_ONCE: Final = 200


def count_snapshots(
    ranges: Sequence[Range], *, but: Collection[UUID] = (), by: UUID | None = None
) -> int:
    """Those that hold something of these records, of all threads but some.

    With the id of an erasure: those that stand up to its last order, hence were made
    anew by it. Two queries for two hundred threads, and one a generation of forks.
    """
    since = _since(ranges, but)
    found = 0
    for start in range(0, len(since), _AT_ONCE):
        some = [*since][start : start + _AT_ONCE]
        until = _ordered(some, by) if by else {}
        rows = Snapshot.objects.filter(thread__in=some).values_list("thread", "seq")
        found += sum(
            seq >= since[thread] and (by is None or seq <= until.get(thread, 0))
            for thread, seq in rows
        )
    return found


def _since(ranges: Sequence[Range], but: Collection[UUID]) -> dict[UUID, int]:
    """By thread, from which of its seqs on its states hold something of them."""
    firsts: dict[UUID, int] = {}
    for thread, first, _ in ranges:
        firsts[thread] = min(first, firsts.get(thread, first))
    since = dict(firsts)
    # In the order of their ids: a fork comes after what it was forked off.
    rows = erasing.concerned(ranges)
    for row in rows:
        parent, at = row.parent_id, row.fork_seq
        inherits = parent in since and at is not None and at >= since[parent]
        since[row.id] = 0 if inherits else firsts.get(row.id, 0)
    return {row.id: since[row.id] for row in rows if row.id not in but}


def _ordered(threads: Sequence[UUID], by: UUID) -> dict[UUID, int]:
    """The seq of the last order of an erasure in each of these threads."""
    told = Event.objects.filter(thread__in=threads, actor=erasing.actor(by))
    rows = told.order_by().values("thread").annotate(last=Max("seq"))
    return dict(rows.values_list("thread", "last"))
