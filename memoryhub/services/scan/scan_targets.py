"""Inputs of scans: the targets of erasures, and whose rows should hold none.

This module never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from memoryhub.journal.forget import purging
from memoryhub.models.erasures import Erasure
from memoryhub.services.scan import collecting
from memoryhub.vault.scan.targets import ScanTarget

#: Most targets of one pass, at night and by day beside requests: each takes some 8 KB
#: of memory during the scan.
AT_ONCE, BY_DAY = 20_000, 5_000

State = Erasure.State
#: States from the purge of the rows until the receipt.
_GONE: Final = (
    *(State.ROWS_ERASED, State.CACHES_PURGED, State.SCRUBBED, State.VERIFIED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTargets:
    """Targets of a scan, with the subjects and threads whose rows should be gone."""

    by_erasure: Mapping[UUID, Sequence[ScanTarget]] = field(default_factory=dict)
    subjects: frozenset[UUID] = frozenset()
    threads: frozenset[UUID] = frozenset()


def gather_targets(
    rows: Sequence[Erasure], collect: Callable[[Erasure], Sequence[ScanTarget]]
) -> ScanTargets:
    """Gather the targets by erasure, and the subjects and threads erased whole.

    A thread that a live fork reads through keeps its names lawfully.
    """
    whole = [row for row in rows if row.scope == Erasure.Scope.SUBJECT]
    threads = [
        row.thread_id
        for row in rows
        if row.scope == Erasure.Scope.THREAD
        and row.thread_id
        and not purging.list_live_descendants([row.thread_id])
    ]
    return ScanTargets(
        by_erasure={row.id: collect(row) for row in rows},
        subjects=frozenset(row.subject_id for row in whole),
        threads=frozenset(threads),
    )


def iter_passes(
    rows: Iterable[Erasure],
    collect: Callable[[Erasure], Sequence[ScanTarget]],
    *,
    at_once: int,
) -> Iterator[list[Erasure]]:
    """Iterate over batches of erasures for one pass each; the last may be empty."""
    batch: list[Erasure] = []
    count = 0
    for row in rows:
        more = len(collect(row))
        if batch and count + more > at_once:
            yield batch
            batch, count = [], 0
        batch.append(row)
        count += more
    yield batch


def list_waiting_beside(row: Erasure) -> list[Erasure]:
    """List other scrubbed erasures that wait for nothing else, as one pass allows."""
    rows = Erasure.objects.filter(state=State.SCRUBBED, waiting_on="")
    others = rows.exclude(id=row.id).select_related("subject", "thread").order_by("id")
    passes = iter_passes([row, *others], collecting.list_targets, at_once=BY_DAY)
    return next(passes)[1:]


def list_nightly() -> list[Erasure]:
    """List the erasures of the nightly scan: scrubbed ones that wait.

    Complete erasures too, whose receipts have no nightly check yet. Content that is not
    scrubbed would certainly be found.
    """
    left = Erasure.objects.filter(state=State.COMPLETE).exclude(needles=b"")
    rows = left | Erasure.objects.filter(state=State.SCRUBBED)
    return [*rows.select_related("subject", "thread").order_by("id")]


def gather_unfinished() -> ScanTargets:
    """Gather the targets of all purged erasures, until the night after the receipt."""
    rows = Erasure.objects.filter(state__in=_GONE)
    rows |= Erasure.objects.filter(state=State.COMPLETE).exclude(needles=b"")
    return gather_targets([*rows.order_by("id")], collecting.list_targets)
