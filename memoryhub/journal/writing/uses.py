"""Uses: how often each key read and wrote a subject's memory, by day.

Counted in the process and written every few seconds: a read must not cost a write. A
killed process loses the counts that it had not written yet.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from typing import NamedTuple
from uuid import UUID

import orjson
from django.db import transaction

from memoryhub.journal.log import fence
from memoryhub.journal.log.orders import Order, OrderReceipt
from memoryhub.journal.rows.statements import Add
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock

_AGENT = "agent:"
_GONE = ("erasing", "erased")
#: States in which the receipt is signed, or is being signed.
_SIGNED = (Erasure.State.VERIFIED, Erasure.State.COMPLETE)


class DailyUseKey(NamedTuple):
    """A key, a subject and a day, for which uses are counted."""

    prefix: str
    subject: UUID
    day: date


class LateReads(NamedTuple):
    """Reads of a subject's memory that its signed receipt may not name."""

    erasure: UUID
    #: By key, in the form in which receipts name it.
    reads: Mapping[str, int]


class DailyUseRow(NamedTuple):
    """A row of DailyUse, in the order of its columns."""

    subject_id: UUID
    day: str
    key_id: UUID
    reads: int
    writes: int


class UseCounts:
    """Counts since the last flush. Any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reads: Counter[DailyUseKey] = Counter()
        self._writes: Counter[DailyUseKey] = Counter()
        self._late: list[LateReads] = []

    def count_read(self, prefix: str, subject: UUID) -> None:
        """Count a read of the subject's memory by the key of this prefix."""
        use = DailyUseKey(prefix, subject, clock.now().date())
        with self._lock:
            self._reads[use] += 1

    def count_writes(self, orders: Iterable[Order], outcomes: Iterable[object]) -> None:
        """Count writes that agents committed."""
        today = clock.now().date()
        for order, each in zip(orders, outcomes, strict=True):
            if not order.actor.startswith(_AGENT) or not isinstance(each, OrderReceipt):
                continue
            if each.replayed or not each.events or each.state is None:
                continue
            use = DailyUseKey(
                order.actor.removeprefix(_AGENT), each.state.subject, today
            )
            with self._lock:
                self._writes[use] += 1

    def list_readers(self, subject: UUID) -> set[str]:
        """Return the prefixes of keys that read the subject, from unwritten counts."""
        with self._lock:
            return {use.prefix for use in self._reads if use.subject == subject}

    def flush(self) -> int:
        """Write the counts; return how many rows. Only the writer calls it."""
        with self._lock:
            reads, self._reads = self._reads, Counter()
            writes, self._writes = self._writes, Counter()
        try:
            written, late = _write_counts(reads, writes)
        except Exception:
            # Nothing was written, so add the counts back.
            with self._lock:
                self._reads.update(reads)
                self._writes.update(writes)
            raise
        with self._lock:
            self._late += late
        return written

    def list_late(self) -> list[LateReads]:
        """Return reads that came too late for a receipt and were not reported yet."""
        with self._lock:
            return [*self._late]

    def drop_late(self, late: LateReads) -> None:
        """Drop late reads that have been reported."""
        with self._lock:
            self._late.remove(late)

    def clear(self) -> None:
        with self._lock:
            self._reads.clear()
            self._writes.clear()
            self._late.clear()


def recipient_name(prefix: str) -> str:
    """Return a key's name among the recipients of a receipt."""
    return f"key:{prefix}"


def _write_counts(
    reads: Counter[DailyUseKey], writes: Counter[DailyUseKey]
) -> tuple[int, list[LateReads]]:
    used = reads.keys() | writes.keys()
    if not used:
        return 0, []
    found = ApiKey.objects.filter(prefix__in={use.prefix for use in used})
    keys = dict(found.values_list("prefix", "id"))
    with transaction.atomic():
        # A subject being erased gets no new row.
        held = fence.hold({use.subject for use in used})
        rows = [
            DailyUseRow(
                use.subject, str(use.day), keys[use.prefix], reads[use], writes[use]
            )
            for use in used
            if use.prefix in keys
            and use.subject in held
            and held[use.subject].state not in _GONE
        ]
        _ADD.write(rows)
    late: list[LateReads] = []
    for subject, fenced in held.items():
        given: Counter[str] = Counter()
        for use, count in reads.items():
            if use.subject == subject:
                given[recipient_name(use.prefix)] += count
        if given and fenced.state in _GONE:
            late += _name_recipients(subject, given)
    return len(rows), late


def _name_recipients(subject: UUID, given: Mapping[str, int]) -> list[LateReads]:
    """Add keys that read up to the fence to the recipients of the running erasure.

    Another process may have set the fence while the reads were counted here. It may
    even have signed the receipt: reads that the receipt may lack are returned.
    """
    late: list[LateReads] = []
    with transaction.atomic():
        rows = Erasure.objects.filter(subject=subject).exclude(ledger_n=None)
        for row in rows.select_for_update():
            planned = orjson.loads(row.planned)
            if row.state in _SIGNED and row.scope == Erasure.Scope.SUBJECT:
                late.append(LateReads(row.id, dict(given)))
            if row.state == Erasure.State.COMPLETE:
                continue
            planned["recipients"] = sorted({*planned.get("recipients", ()), *given})
            row.planned = orjson.dumps(planned, option=orjson.OPT_SORT_KEYS).decode()
            row.save(update_fields=["planned"])
    return late


_ADD = Add(
    DailyUse,
    DailyUseRow,
    key=("subject_id", "day", "key_id"),
    figures=("reads", "writes"),
)
#: The process's one counter of uses.
uses = UseCounts()
