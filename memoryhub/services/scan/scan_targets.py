"""What scans are for: the targets of erasures, and whose rows should hold none.

Never writes.
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

#: Targets of one pass, at night and by day, beside requests: each takes some 8 KB of
#: memory while it is looked for.
AT_ONCE, BY_DAY = 20_000, 5_000

State = Erasure.State
#: From the moment their rows are gone until the receipt.
_GONE: Final = (
    *(State.ROWS_ERASED, State.CACHES_PURGED, State.SCRUBBED, State.VERIFIED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What to look for, and whose rows should be gone."""

    by_erasure: Mapping[UUID, Sequence[ScanTarget]] = field(default_factory=dict)
    subjects: frozenset[UUID] = frozenset()
    threads: frozenset[UUID] = frozenset()


def gather(
    rows: Sequence[Erasure], collect: Callable[[Erasure], Sequence[ScanTarget]]
) -> Targets:
    """Gather what is looked for, by erasure, and whose names to tell from others'.

    A thread that a live fork reads through keeps its names lawfully.
    """
    whole = [row for row in rows if row.scope == Erasure.Scope.SUBJECT]
    threads = [
        row.thread_id
        for row in rows
        if row.scope == Erasure.Scope.THREAD
        and row.thread_id
        and not purging.folding_through([row.thread_id])
    ]
    return Targets(
        by_erasure={row.id: collect(row) for row in rows},
        subjects=frozenset(row.subject_id for row in whole),
        threads=frozenset(threads),
    )


def in_passes(
    rows: Iterable[Erasure],
    collect: Callable[[Erasure], Sequence[ScanTarget]],
    *,
    at_once: int,
) -> Iterator[list[Erasure]]:
    """Batch erasures whose targets are looked for at once; the last may be none."""
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


def waiting_beside(row: Erasure) -> list[Erasure]:
    """Find what else is scrubbed and waits for nothing, as far as one pass goes."""
    rows = Erasure.objects.filter(state=State.SCRUBBED, waiting_on="")
    others = rows.exclude(id=row.id).select_related("subject", "thread").order_by("id")
    passes = in_passes([row, *others], collecting.list_targets, at_once=BY_DAY)
    return next(passes)[1:]


def nightly() -> list[Erasure]:
    """List what a pass over everything is for: erasures that are scrubbed and wait.

    Complete ones too, whose receipts have not been looked after at night yet. What is
    not scrubbed would be found for sure.
    """
    left = Erasure.objects.filter(state=State.COMPLETE).exclude(needles=b"")
    rows = left | Erasure.objects.filter(state=State.SCRUBBED)
    return [*rows.select_related("subject", "thread").order_by("id")]


def unfinished() -> Targets:
    """Return those of all whose rows are gone, until the night after the receipt."""
    rows = Erasure.objects.filter(state__in=_GONE)
    rows |= Erasure.objects.filter(state=State.COMPLETE).exclude(needles=b"")
    return gather([*rows.order_by("id")], collecting.list_targets)
