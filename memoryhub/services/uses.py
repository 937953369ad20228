"""Uses: has what the process counted of agents' reads and writes put on disk."""

from __future__ import annotations

import asyncio

import structlog

from memoryhub import journal
from memoryhub.journal.uses import uses

log = structlog.get_logger()

FLUSH_SECONDS = 5.0


async def keep_flushing() -> None:
    """Every few seconds, until cancelled."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        try:
            await journal.run_async(uses.flush)
        except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
            # It is counted still, and tried again.
            log.warning("uses.waiting", code=type(failure).__name__)


def settle() -> None:
    """Write what is left, before the writer stops."""
    try:
        journal.run(uses.flush)
    except Exception as failure:  # noqa: BLE001  # the process ends all the same
        log.warning("uses.waiting", code=type(failure).__name__)
