"""The listener: hears through the channel layer which threads moved, in any process.

It loses the notices that the layer loses, so each user of a listener also polls.
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

#: Seconds to wait for an absent layer, which must not delay anybody; polling replaces
#: it.
LAYER_SECONDS = 0.25
#: Seconds between two tries at an absent layer.
RETRY_SECONDS = 1.0
#: Seconds for cancelled work to end.
END_SECONDS = 0.1


def name_thread_group(thread: UUID) -> str:
    """Return the name of the channel group that receives a thread's notices."""
    return f"thread.{thread}"


class Listener:
    """One channel of the layer, for everything to which a part of a process listens."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._deaf = False
        self._channel = ""

    @property
    def is_broken(self) -> bool:
        """Whether this listener misses commits of other processes."""
        return self._deaf or doorbell.broken or _is_isolated()

    async def listen(
        self,
        hear: Callable[[UUID, int], None],
        groups: Callable[[], Collection[str]],
    ) -> None:
        """Pass notices to `hear` until cancelled, across outages of the layer.

        Calls `groups` again each time the layer has come back.
        """
        if _is_isolated():
            log.warning("ear.polling", of=self._name)
        hearing = asyncio.create_task(self._listen(hear, groups))
        try:
            await asyncio.wait([hearing])
        finally:
            # Layers' clients send with `wait_for`, which before Python 3.12 loses a
            # cancellation that arrives just as its work ends.
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
                layer = _get_layer()
                # One prefix for all listeners: a layer waits for one prefix at a time.
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
        """Listen to these groups as well. An absent layer is not waited for."""
        with suppress(Exception):
            async with asyncio.timeout(LAYER_SECONDS):
                await self._join(groups)

    async def leave(self, groups: Collection[str]) -> None:
        """Stop listening to these groups."""
        layer = _get_layer()
        with suppress(Exception):
            async with asyncio.timeout(LAYER_SECONDS):
                for group in groups:
                    await layer.group_discard(group, self._channel)

    async def _join(self, groups: Collection[str]) -> None:
        layer = _get_layer()
        for group in groups:
            await layer.group_add(group, self._channel)


def _is_isolated() -> bool:
    """Return whether other processes may write to the database unheard by us."""
    return (
        isinstance(_get_layer(), InMemoryChannelLayer) and connection.vendor != "sqlite"
    )


def _get_layer() -> Any:
    # The library's stubs know the base class only, which has no methods.
    return get_channel_layer()
