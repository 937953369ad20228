"""The nightly scan: passes over everything that we own, each for many erasures at once.

What was too large to be looked through by day is verified by it, and each receipt gets
a signed addendum that says what was found the night after.
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
#: Hours, by UTC, in which few are in the way.
NIGHT: Final = range(1, 5)
#: A machine that sleeps at night is caught up with by day.
SLEPT_AFTER: Final = timedelta(hours=28)
#: A scan that proved nothing is tried again, though not at once.
AGAIN_AFTER: Final = timedelta(hours=1)
#: Of an erasure that has its receipt; by day all were looked for.
AFTERWARDS: Final = 20

State = Erasure.State


def due(now: datetime) -> bool:
    """Tell whether tonight's scan is still to be made. At most three small queries."""
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
    if tried is not None and now - tried < AGAIN_AFTER:
        return False
    if now.hour in NIGHT:
        tonight = now.replace(hour=NIGHT.start, minute=0, second=0, microsecond=0)
        return last is None or last < tonight
    return now - (last or first) > SLEPT_AFTER


def run(progress: Callable[[int], object] = lambda amount: None) -> list[ScanResult]:
    """Scan for all that waits, in as few passes as memory allows; their results.

    With nothing to look for it is one pass all the same, which finds its own probes.
    Each is noted in the audit log last: whoever dies before does it again.
    """
    results, waiting = [], scan_targets.nightly()
    for rows in scan_targets.in_passes(waiting, _targets, at_once=scan_targets.AT_ONCE):
        whole, each = scans.scan(
            scan_targets.gather(rows, _targets),
            progress=progress,
            budget_bytes=None if rows else scans.BUDGET_BYTES,
        )
        for row in rows:
            _record_result(row, each[row.id])
        scans.note(whole, actor=ACTOR)
        results.append(whole)
    return results


def _targets(row: Erasure) -> list[ScanTarget]:
    found = collecting.list_targets(row)
    return found[:AFTERWARDS] if row.state == State.COMPLETE else found


def _record_result(row: Erasure, result: ScanResult) -> None:
    if result.void or result.unreachable:
        # It has proved nothing.
        return
    if row.state != State.COMPLETE:
        # What somebody wrote beside the fence is for the eraser to find.
        if not any(erasure_targets.count_left(row).values()):
            erasure_steps.pass_scan(row, result)
        return
    _add(row, result)
    if result.clean:
        rows = Erasure.objects.filter(id=row.id)
        journal.run(partial(rows.update, needles=b""))


def _add(row: Erasure, result: ScanResult) -> None:
    """Sign an addendum to the receipt; not a second one that says the same."""
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
    receipts.add(row, "scanned", numbers)
