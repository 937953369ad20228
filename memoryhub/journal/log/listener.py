"""The listener: learns by the channel layer which threads moved, in any process.

It loses what the layer loses, so whoever listens looks from time to time as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any
from uuid import UUID

import structlog
from channels.layers import InMemoryChannelLayer, get_channel_layer
from django.db import connection

from memoryhub.journal.log.announce import doorbell

log = structlog.get_logger()

#: A layer that is away must not hold anybody up; looks stand in for it.
LAYER_SECONDS = 0.25
#: Between two tries at a layer that is away.
RETRY_SECONDS = 1.0
#: For work that was cancelled to end in.
END_SECONDS = 0.1


def of_thread(thread: UUID) -> str:
    """Return the group that hears of a thread."""
    return f"thread.{thread}"


class Listener:
    """One channel of the layer, for all that one part of a process listens to."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._deaf = False
        self._channel = ""

    @property
    def broken(self) -> bool:
        """Whether commits of other processes are not heard of."""
        return self._deaf or doorbell.broken or _alone()

    async def listen(
        self,
        hear: Callable[[UUID, int], None],
        groups: Callable[[], Collection[str]],
    ) -> None:
        """Hand over notices until cancelled, though the layer may come and go.

        `groups` are asked for again each time the layer has come back.
        """
        if _alone():
            log.warning("ear.polling", of=self._name)
        hearing = asyncio.create_task(self._listen(hear, groups))
        try:
            await asyncio.wait([hearing])
        finally:
            # Layers' clients send with `wait_for`, which before Python 3.12 forgets a
            # cancellation that comes just as its work ends.
            while not hearing.done():
                hearing.cancel()
                await asyncio.wait([hearing], timeout=END_SECONDS)

    async def _listen(
        self,
        hear: Callable[[UUID, int], None],
        groups: Callable[[], Collection[str]],
    ) -> None:
        while True:
            try:
                layer = _layer()
                # One prefix for all ears: a layer waits for one at a time.
                self._channel = await layer.new_channel("ear")
                await self._join(groups())
                self._deaf = False
                while True:
                    notice = await layer.receive(self._channel)
                    hear(UUID(notice["thread"]), notice["seq"])
            except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
                if not self._deaf:
                    log.warning("ear.deaf", of=self._name, code=type(failure).__name__)
                self._deaf = True
                await asyncio.sleep(RETRY_SECONDS)

    async def join(self, groups: Collection[str]) -> None:
        """Listen to these as well. A layer that is away is not waited for."""
        with suppress(Exception):
            async with asyncio.timeout(LAYER_SECONDS):
                await self._join(groups)

    async def leave(self, groups: Collection[str]) -> None:
        """Listen to these no more."""
        layer = _layer()
        with suppress(Exception):
            async with asyncio.timeout(LAYER_SECONDS):
                for group in groups:
                    await layer.group_discard(group, self._channel)

    async def _join(self, groups: Collection[str]) -> None:
        layer = _layer()
        for group in groups:
            await layer.group_add(group, self._channel)


def _alone() -> bool:
    """Other processes may write to the database, and we can't hear of them."""
    return isinstance(_layer(), InMemoryChannelLayer) and connection.vendor != "sqlite"


def _layer() -> Any:
    # Its stubs know the base class only, which has no methods.
    return get_channel_layer()
