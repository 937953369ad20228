"""Activity: what each process counts of projects is added to the rows of all."""

from __future__ import annotations

import structlog

from memoryhub import journal
from memoryhub.journal.writing.activity import activity

log = structlog.get_logger()


def flush() -> int:
    """Write what this process has counted; how many rows. Needs no lease."""
    try:
        rows: int = journal.run(activity.flush)
    except Exception as failure:  # noqa: BLE001  # no round, and no end, waits for it
        # It is counted still, and tried again.
        log.warning("activity.waiting", code=type(failure).__name__)
        return 0
    return rows
