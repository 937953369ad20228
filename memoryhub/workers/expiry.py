"""Expiry: sweeps expired keys, and erases old values after their grace.

Answers never wait for a sweep: an expired key is invisible at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from django.db.models import Model, Q, QuerySet

from memoryhub import journal
from memoryhub.errors import Refusal
from memoryhub.journal import Address, Order
from memoryhub.journal.forget import wal
from memoryhub.kernel.memory.key_events import KeysExpired, ValuesErased
from memoryhub.kernel.memory.keys import SWEPT_AT_ONCE, EraseValues, ExpireKeys
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.queries.forget import expiry

ACTOR = "worker:expiry"
#: Rows read at once; after a full read more rows may be due.
PASS = 500
#: Rows after which a task yields to others, and is due again at once.
AT_ONCE = 5_000

#: Columns that identify rows within one thread, for a command about them.
Items: TypeAlias = Sequence[tuple[Any, ...]]
Make: TypeAlias = Callable[[Items], MemoryCommand]
_ADDRESS = ("thread__project_id", "thread__name")


def expire(now: datetime) -> int:
    """Sweep expired keys; return how many. Emits keys.expired, by thread."""
    order = ("expires_at", "thread_id", "key")
    return _run_passes(expiry.select_due_keys(now), order, ("version",), _build_sweep)


def erase(now: datetime) -> int:
    """Erase values whose time in history is over; return how many.

    Emits values.erased, by thread. A project without a grace keeps its values. On
    SQLite no file holds them after that, unless somebody reads all the while.
    """
    count = 0
    for project, grace, _ in expiry.iter_due_projects(now):
        if count >= AT_ONCE:
            break
        rows = expiry.select_due_values(project, grace=grace, now=now)
        order = ("due_at", "thread_id", "seq")
        count += _run_passes(rows, order, (), partial(_build_erase, grace=grace))
    if count:
        # The write-ahead log still has the old pages.
        wal.truncate()
    return count


def _build_sweep(keys: Items) -> MemoryCommand:
    return ExpireKeys(keys=tuple((key, version) for key, version in keys))


def _build_erase(seqs: Items, *, grace: timedelta) -> MemoryCommand:
    return EraseValues(seqs=tuple(seq for (seq,) in seqs), grace=grace)


def _run_passes(
    rows: QuerySet[Model],
    order: tuple[str, str, str],
    columns: Sequence[str],
    make: Make,
) -> int:
    """Run passes while they are full; return how many rows were handled.

    Each pass starts after the last row of the pass before, so that rows which a thread
    refuses do not block others.
    """
    count, after = 0, Q()
    while count < AT_ONCE:
        wanted = rows.filter(after).values_list(*order, *_ADDRESS, *columns)
        batch = list(wanted[:PASS])
        count += _perform_batch(batch, make)
        if len(batch) < PASS:
            break
        after = _match_after(order, batch[-1])
    return count


def _match_after(order: tuple[str, str, str], last: tuple[Any, ...]) -> Q:
    """Match rows that are sorted after this row."""
    (one, a), (two, b), (three, c) = zip(order, last, strict=False)
    later = Q(**{f"{two}__gt": b}) | Q(**{two: b, f"{three}__gt": c})
    # The first column is repeated so that the index is used.
    return Q(**{f"{one}__gte": a}) & (Q(**{f"{one}__gt": a}) | later)


def _perform_batch(batch: Items, make: Make) -> int:
    """Submit a batch's commands, many threads in one commit; return how many rows went.

    A refusal, by a thread that ended meanwhile or a busy writer, is tried again next
    time.
    """
    waiting: list[Future[journal.OrderReceipt]] = []
    for address, items in _group_by_thread(batch).items():
        for chunk in _split_chunks(items):
            order = Order(address=address, command=make(chunk), actor=ACTOR)
            with suppress(Refusal):
                waiting.append(journal.writer.put(order))
    return sum(map(_count_expired, waiting))


def _group_by_thread(batch: Items) -> dict[Address, list[tuple[Any, ...]]]:
    found: dict[Address, list[tuple[Any, ...]]] = {}
    for _, _, last, project, name, *more in batch:
        items = found.setdefault(Address(project=project, name=name), [])
        items.append((last, *more))
    return found


def _split_chunks(items: Items) -> Iterator[Items]:
    for start in range(0, len(items), SWEPT_AT_ONCE):
        yield items[start : start + SWEPT_AT_ONCE]


def _count_expired(done: Future[journal.OrderReceipt]) -> int:
    count = 0
    with suppress(Refusal):
        for recorded in done.result().events:
            if isinstance(recorded.event, KeysExpired):
                count += len(recorded.event.keys)
            elif isinstance(recorded.event, ValuesErased):
                count += len(recorded.event.seqs)
    return count
