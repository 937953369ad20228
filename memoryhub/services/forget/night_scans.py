"""The nightly scan: passes over all surfaces, each for many erasures at once.

The nightly scan verifies erasures that are too large to scan by day. Each receipt gets
a signed addendum with the result of the night after.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import orjson
from django.db.models import Min, Q

from memoryhub import journal
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.queries.forget import erasure_targets
from memoryhub.services.forget import erasure_steps, receipts
from memoryhub.services.scan import collecting, scan_targets, scans
from memoryhub.services.scan.scans import ScanResult
from memoryhub.vault.scan.targets import ScanTarget

ACTOR: Final = "worker:scan"
#: Hours by UTC with little traffic.
NIGHT: Final = range(1, 5)
#: Time without a scan after which one runs by day, as on a machine that sleeps at
#: night.
CATCH_UP_AFTER: Final = timedelta(hours=28)
#: Pause before an inconclusive scan is tried again.
RETRY_AFTER: Final = timedelta(hours=1)
#: Targets looked for after the receipt; the scan by day looked for all.
TARGETS_AFTERWARDS: Final = 20

State = Erasure.State


def is_due(now: datetime) -> bool:
    """Return whether tonight's scan is still due. At most three small queries."""
    began = Erasure.objects.filter(state__in=(State.SCRUBBED, State.COMPLETE))
    first = began.aggregate(first=Min("confirmed_at"))["first"]
    if first is None:
        return False
    rows = AuditEntry.objects.filter(
        project=None, action="scanned", actor_kind="worker"
    )
    conclusive = Q(outcome="done") | Q(count__gt=0)
    ats = rows.order_by("-seq").values_list("at", flat=True)
    last, tried = ats.filter(conclusive).first(), ats.first()
    if tried is not None and now - tried < RETRY_AFTER:
        return False
    if now.hour in NIGHT:
        tonight = now.replace(hour=NIGHT.start, minute=0, second=0, microsecond=0)
        return last is None or last < tonight
    return now - (last or first) > CATCH_UP_AFTER


def run_scans(
    progress: Callable[[int], object] = lambda amount: None,
) -> list[ScanResult]:
    """Scan for all waiting erasures, in as few passes as memory allows; their results.

    Without targets one pass runs all the same, which finds its own probes. Each pass is
    audited last: after a crash the pass is repeated.
    """
    results, waiting = [], scan_targets.list_nightly()
    for rows in scan_targets.iter_passes(
        waiting, _list_targets, at_once=scan_targets.AT_ONCE
    ):
        whole, each = scans.scan_surfaces(
            scan_targets.gather_targets(rows, _list_targets),
            progress=progress,
            budget_bytes=None if rows else scans.BUDGET_BYTES,
        )
        for row in rows:
            _record_result(row, each[row.id])
        scans.audit_scan(whole, actor=ACTOR)
        results.append(whole)
    return results


def _list_targets(row: Erasure) -> list[ScanTarget]:
    """List the scan targets of an erasure; only a sample after its receipt."""
    found = collecting.list_targets(row)
    return found[:TARGETS_AFTERWARDS] if row.state == State.COMPLETE else found


def _record_result(row: Erasure, result: ScanResult) -> None:
    """Record a scan's result: as verification, or as an addendum to the receipt."""
    if result.is_void or result.unreachable:
        # An inconclusive scan proves nothing.
        return
    if row.state != State.COMPLETE:
        # Rows written after the fence are for the worker to purge.
        if not any(erasure_targets.count_left(row).values()):
            erasure_steps.pass_scan(row, result)
        return
    _add_addendum(row, result)
    if result.is_clean:
        rows = Erasure.objects.filter(id=row.id)
        journal.run(partial(rows.update, needles=b""))


def _add_addendum(row: Erasure, result: ScanResult) -> None:
    """Sign an addendum to the receipt, unless the last addendum says the same."""
    rows = Receipt.objects.filter(erasure=row, n__gt=0, text__contains='"scanned"')
    last = rows.order_by("-n").values_list("text", flat=True).first()
    if last is not None:
        before = orjson.loads(last)["numbers"]["undeclared"]
        if bool(before) == bool(result.undeclared):
            return
    numbers = {
        "surfaces": len(result.surfaces),
        "bytes": result.scanned_bytes,
        "needles": sum(result.targets.values()),
        "undeclared": result.undeclared,
    }
    receipts.add_addendum(row, "scanned", numbers)
