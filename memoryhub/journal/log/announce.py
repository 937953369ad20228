"""The doorbell: after a commit it says which threads moved, and nothing else.

It can't fail or slow a write: notices are sent by the server's event loop, a lost one
costs a watcher one look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

import structlog
from channels.layers import get_channel_layer

log = structlog.get_logger()

#: A dead or frozen channel layer is given up on after this long.
SEND_SECONDS = 0.25

#: Rounds of notices are this far apart: half a frame of a screen costs nobody.
PACE_SECONDS = 0.025

Notice = tuple[UUID, UUID, int]


class Doorbell:
    """Sends the newest notice of each thread; older ones still waiting are dropped."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[UUID, tuple[UUID, int]] = {}
        self._sending: asyncio.Task[None] | None = None
        #: Whether the last notice was lost; shown in readiness.
        self.broken = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send from this loop until `detach`."""
        self._loop = loop

    def detach(self) -> None:
        self._loop = None
        if self._sending is not None:
            self._sending.cancel()

    def ring(self, notices: Iterable[Notice]) -> None:
        """Say that threads moved. Any thread may call it; it never waits."""
        loop = self._loop
        if loop is None:
            # A command in a process without a server: watchers look by themselves.
            return
        listed = list(notices)
        if listed:
            with suppress(RuntimeError):  # the loop closed meanwhile
                loop.call_soon_threadsafe(self._note, listed)

    def _note(self, notices: list[Notice]) -> None:
        for project, thread, seq in notices:
            self._waiting[thread] = (project, seq)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        layer = get_channel_layer()
        assert layer is not None
        while self._waiting:
            noted, self._waiting = self._waiting, {}
            try:
                for thread, (project, seq) in noted.items():
                    message = {"type": "moved", "thread": str(thread), "seq": seq}
                    async with asyncio.timeout(SEND_SECONDS):
                        await layer.group_send(f"thread.{thread}", message)
                        await layer.group_send(f"project.{project}", message)
                self.broken = False
                # What moves meanwhile is one notice a thread, however often it does.
                await asyncio.sleep(PACE_SECONDS)
            except Exception as failure:  # noqa: BLE001 # outermost loop of a task
                if not self.broken:
                    log.warning("doorbell.lost", code=type(failure).__name__)
                self.broken = True
                # What waits is as lost; watchers look by themselves.
                self._waiting.clear()


doorbell = Doorbell()


def ring(notices: Iterable[Notice]) -> None:
    doorbell.ring(notices)
