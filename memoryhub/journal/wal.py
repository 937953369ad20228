"""SQLite's write-ahead log, from which what was erased must go as well."""

from __future__ import annotations

import time
from typing import Any

from django.db import OperationalError, connections

#: Looks for a moment without readers; seconds between them.
TRIES, PAUSE = 10, 0.05


def truncate() -> bool:
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
            return any(_truncated(cursor, tried) for tried in range(TRIES))
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {int(timeout)}")


def _truncated(cursor: Any, tried: int) -> bool:
    if tried:
        time.sleep(PAUSE)
    try:
        (busy, _, _) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except OperationalError:
        return False
    return not busy
