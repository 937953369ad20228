"""SQLite's write-ahead log, from which what was erased must go as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from django.db import OperationalError, connections

#: How long a moment without readers is looked for, unless told; seconds between the
#: looks, at first and at most.
SECONDS: Final = 0.5
FIRST_PAUSE, LAST_PAUSE = 0.05, 1.0


def truncate(*, seconds: float = SECONDS) -> bool:
    """Bring the log into the database and empty it; whether that could be done.

    Waits for no transaction: a reader who stays leaves it to the next checkpoint. Of no
    use inside a transaction, nor on PostgreSQL, which takes care of its log itself.
    """
    connection = connections["default"]
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return False
    with connection.cursor() as cursor:
        (timeout,) = cursor.execute("PRAGMA busy_timeout").fetchone()
        # The writer must not queue behind one who waits for readers.
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            return any(_truncated(cursor) for _ in polls(seconds))
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {int(timeout)}")


def polls(seconds: float) -> Iterator[None]:
    """Come round once at least, then after ever longer pauses until time is over."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, LAST_PAUSE)


def _truncated(cursor: Any) -> bool:
    try:
        (busy, _, _) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except OperationalError:
        return False
    return not busy
