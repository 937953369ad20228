"""The doorbell: sends a notice after a commit that says which threads moved.

The doorbell can't fail or slow a write: the server's event loop sends the notices, and
a lost notice costs a watcher one look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

import structlog
from channels.layers import get_channel_layer

log = structlog.get_logger()

#: Seconds after which sending to a dead or frozen channel layer is given up.
SEND_SECONDS = 0.25

#: Seconds between two rounds of notices; shorter than a watcher would notice.
PACE_SECONDS = 0.025

Notice = tuple[UUID, UUID, int]


class Doorbell:
    """Sender of the newest notice of each thread; drops older notices still waiting."""

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

    def notify(self, notices: Iterable[Notice]) -> None:
        """Announce that threads moved. Any thread may call it; it never waits."""
        loop = self._loop
        if loop is None:
            # A command in a process without a server: watchers poll instead.
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
                # A thread that moves meanwhile gets one notice, however often it moves.
                await asyncio.sleep(PACE_SECONDS)
            except Exception as failure:  # noqa: BLE001 # outermost loop of a task
                if not self.broken:
                    log.warning("doorbell.lost", code=type(failure).__name__)
                self.broken = True
                # Notices still waiting are dropped as well; watchers poll instead.
                self._waiting.clear()


doorbell = Doorbell()


def notify(notices: Iterable[Notice]) -> None:
    doorbell.notify(notices)
