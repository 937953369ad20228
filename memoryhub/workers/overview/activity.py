"""Activity: adds each process's counts of projects to the rows of all processes."""

from __future__ import annotations

import structlog

from memoryhub import journal
from memoryhub.journal.writing.activity import activity

log = structlog.get_logger()


def flush() -> int:
    """Write the counts of this process; return how many rows. Needs no lease."""
    try:
        rows: int = journal.run(activity.flush)
    except Exception as failure:  # noqa: BLE001  # no round, and no end, waits for it
        # The counts are kept, and tried again.
        log.warning("activity.waiting", code=type(failure).__name__)
        return 0
    return rows
