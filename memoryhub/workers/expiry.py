"""Expiry: sweeps keys whose instant has passed, and erases values after their grace.

Answers never wait for it: what has expired is invisible at once, swept or not.
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
#: Rows read at once; while that many are due there may be more.
PASS = 500
#: Rows after which a task makes room for others, and is due again at once.
AT_ONCE = 5_000

#: What names rows of one thread there, for a command about them.
Items: TypeAlias = Sequence[tuple[Any, ...]]
Make: TypeAlias = Callable[[Items], MemoryCommand]
_ADDRESS = ("thread__project_id", "thread__name")


def expire(now: datetime) -> int:
    """Sweep keys; returns how many. Emits keys.expired, by thread."""
    order = ("expires_at", "thread_id", "key")
    return _passes(expiry.due_keys(now), order, ("version",), _sweeper)


def erase(now: datetime) -> int:
    """Erase values whose time in history is over; returns how many.

    Emits values.erased, by thread. A project without a grace keeps them. On SQLite
    they are in no file after that, unless somebody reads all the while.
    """
    count = 0
    for project, grace, _ in expiry.iter_due_projects(now):
        if count >= AT_ONCE:
            break
        rows = expiry.due_values(project, grace=grace, now=now)
        order = ("due_at", "thread_id", "seq")
        count += _passes(rows, order, (), partial(_eraser, grace=grace))
    if count:
        # The log still has the pages from before.
        wal.truncate()
    return count


def _sweeper(keys: Items) -> MemoryCommand:
    return ExpireKeys(keys=tuple((key, version) for key, version in keys))


def _eraser(seqs: Items, *, grace: timedelta) -> MemoryCommand:
    return EraseValues(seqs=tuple(seq for (seq,) in seqs), grace=grace)


def _passes(
    rows: QuerySet[Model],
    order: tuple[str, str, str],
    columns: Sequence[str],
    make: Make,
) -> int:
    """Pass after pass while one is full; returns how many rows went.

    Each goes on after the last row of the one before, so that rows which some thread
    refuses to give up keep nobody else's waiting.
    """
    count, after = 0, Q()
    while count < AT_ONCE:
        wanted = rows.filter(after).values_list(*order, *_ADDRESS, *columns)
        batch = list(wanted[:PASS])
        count += _perform(batch, make)
        if len(batch) < PASS:
            break
        after = _beyond(order, batch[-1])
    return count


def _beyond(order: tuple[str, str, str], last: tuple[Any, ...]) -> Q:
    """Match rows that stand after this one."""
    (one, a), (two, b), (three, c) = zip(order, last, strict=False)
    later = Q(**{f"{two}__gt": b}) | Q(**{two: b, f"{three}__gt": c})
    # The first is said once more for the index's sake.
    return Q(**{f"{one}__gte": a}) & (Q(**{f"{one}__gt": a}) | later)


def _perform(batch: Items, make: Make) -> int:
    """Have the rows of a pass done, many threads in one commit; how many went.

    What is refused, by a thread that ended meanwhile or a writer that is busy, is
    looked at again next time.
    """
    waiting: list[Future[journal.Receipt]] = []
    for address, items in _by_thread(batch).items():
        for chunk in _chunks(items):
            order = Order(address=address, command=make(chunk), actor=ACTOR)
            with suppress(Refusal):
                waiting.append(journal.writer.put(order))
    return sum(map(_count_expired, waiting))


def _by_thread(batch: Items) -> dict[Address, list[tuple[Any, ...]]]:
    found: dict[Address, list[tuple[Any, ...]]] = {}
    for _, _, last, project, name, *more in batch:
        items = found.setdefault(Address(project=project, name=name), [])
        items.append((last, *more))
    return found


def _chunks(items: Items) -> Iterator[Items]:
    for start in range(0, len(items), SWEPT_AT_ONCE):
        yield items[start : start + SWEPT_AT_ONCE]


def _count_expired(done: Future[journal.Receipt]) -> int:
    count = 0
    with suppress(Refusal):
        for recorded in done.result().events:
            if isinstance(recorded.event, KeysExpired):
                count += len(recorded.event.keys)
            elif isinstance(recorded.event, ValuesErased):
                count += len(recorded.event.seqs)
    return count
