"""Flushing of counted reads and writes of agents to the database.

A receipt names who read up to the fence. Another process may flush its counts after the
receipt, which never changes: such late counts are signed as an addendum.
"""

from __future__ import annotations

import asyncio

import orjson
import structlog

from memoryhub import journal
from memoryhub.journal.writing.uses import uses
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.services.forget import receipts

log = structlog.get_logger()

FLUSH_SECONDS = 5.0
#: Kind of addendum that names API keys, and how often each key read.
RECIPIENTS = "recipients"


async def keep_flushing() -> None:
    """Flush every five seconds, until cancelled."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        try:
            await journal.run_async(uses.flush)
            await asyncio.to_thread(_sign_late_readers)
        except Exception as failure:  # noqa: BLE001  # outermost loop of a task
            # The counts stay in memory, and the next round tries again.
            log.warning("uses.waiting", code=type(failure).__name__)


def flush_last() -> None:
    """Flush the remaining counts, before the writer stops."""
    try:
        journal.run(uses.flush)
        _sign_late_readers()
    except Exception as failure:  # noqa: BLE001  # the process ends regardless
        log.warning("uses.waiting", code=type(failure).__name__)


def _sign_late_readers() -> None:
    """Sign addenda for late counts; counts of an unfinished erasure wait."""
    for each in uses.list_late():
        row = Erasure.objects.get(id=each.erasure)
        if row.state != Erasure.State.COMPLETE:
            continue
        named = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)["recipients"]
        lacking = {key: n for key, n in sorted(each.reads.items()) if key not in named}
        if lacking:
            receipts.add_addendum(row, RECIPIENTS, lacking)
        uses.drop_late(each)
