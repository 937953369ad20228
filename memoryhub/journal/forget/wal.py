"""SQLite's write-ahead log, which must lose erased bytes as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from django.db import OperationalError, connections

#: Default seconds to look for a moment without readers; seconds between two looks, at
#: first and at most.
SECONDS: Final = 0.5
FIRST_PAUSE, LAST_PAUSE = 0.05, 1.0


def truncate(*, seconds: float = SECONDS) -> bool:
    """Truncate the log after a checkpoint; return whether that succeeded.

    Waits for no transaction: a reader who stays leaves the log to the next checkpoint.
    Returns False inside a transaction and on PostgreSQL, which recycles its log itself.
    """
    connection = connections["default"]
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return False
    with connection.cursor() as cursor:
        (timeout,) = cursor.execute("PRAGMA busy_timeout").fetchone()
        # The writer must not queue behind a checkpoint that waits for readers.
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            return any(_try_truncate(cursor) for _ in iter_polls(seconds))
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {int(timeout)}")


def iter_polls(seconds: float) -> Iterator[None]:
    """Yield once at least, then after ever longer pauses until the seconds are over."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, LAST_PAUSE)


def _try_truncate(cursor: Any) -> bool:
    """Try to truncate the log; return whether no reader was in the way."""
    try:
        (busy, _, _) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except OperationalError:
        return False
    return not busy
