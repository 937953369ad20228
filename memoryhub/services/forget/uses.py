"""Uses: has what the process counted of agents' reads and writes put on disk.

A receipt names who read up to the fence. What another process had counted by then may
come after the receipt, which never changes: that is signed as an addendum.
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
#: Of an addendum that names keys, and how often each had read.
RECIPIENTS = "recipients"


async def keep_flushing() -> None:
    """Flush every few seconds, until cancelled."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        try:
            await journal.run_async(uses.flush)
            await asyncio.to_thread(_name_late)
        except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
            # It is counted still, and tried again.
            log.warning("uses.waiting", code=type(failure).__name__)


def settle() -> None:
    """Write what is left, before the writer stops."""
    try:
        journal.run(uses.flush)
        _name_late()
    except Exception as failure:  # noqa: BLE001  # the process ends all the same
        log.warning("uses.waiting", code=type(failure).__name__)


def _name_late() -> None:
    """Sign what came too late for a receipt; one on its way is looked at again."""
    for each in uses.late():
        row = Erasure.objects.get(id=each.erasure)
        if row.state != Erasure.State.COMPLETE:
            continue
        named = orjson.loads(Receipt.objects.get(erasure=row, n=0).text)["recipients"]
        lacking = {key: n for key, n in sorted(each.reads.items()) if key not in named}
        if lacking:
            receipts.add(row, RECIPIENTS, lacking)
        uses.drop_late(each)
