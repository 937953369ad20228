from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer

from inspector.access import access
from inspector.live import protocol, standing
from inspector.live.audience import Viewer
from inspector.live.hub import hub
from inspector.live.protocol import Close, Hello, RefusedError
from inspector.live.standing import Badge
from memoryhub.journal.log.listener import Listener
from memoryhub.queries.threads.readers import read

log = structlog.get_logger()

LIVE_PATH = re.compile(r"/ws/live/([a-z0-9-]{1,40})")


class LiveConsumer(AsyncWebsocketConsumer):
    """Serve a page's socket. Refuses after accepting, so that the code is seen."""

    #: No such layer: not a channel for every page, the hub has one for all.
    channel_layer_alias = "none"

    def __init__(self) -> None:
        super().__init__()
        self.viewer: Viewer | None = None
        self.heard: deque[float] = deque(maxlen=protocol.MESSAGES_PER_SECOND)
        self.alarm: asyncio.TimerHandle | None = None
        self.closed = False

    async def dispatch(self, message: Mapping[str, Any]) -> None:
        # Channels would first have a thread look for old database connections; only
        # readers have any here.
        handler = getattr(self, message["type"].replace(".", "_"))
        try:
            await handler(message)
        except RefusedError as refused:
            await self.refuse(refused.code)

    async def connect(self) -> None:
        await self.accept()
        badge = _badge(self.scope)
        found = (await read(standing.list_standing, {badge}))[badge]
        if found.close is not None:
            # Another's project reads like one that isn't there.
            unknown = found.close is Close.FORBIDDEN
            raise RefusedError(Close.NOT_FOUND if unknown else found.close)
        viewer = Viewer(badge=badge, standing=found, send=self.say, close=self.refuse)
        hub.audience.admit(viewer)
        self.viewer = viewer
        self.wake(protocol.HELLO_SECONDS, Close.SILENT)

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None
    ) -> None:
        viewer = self.viewer
        if self.closed or viewer is None:
            # What was on its way when we hung up.
            return
        now = time.monotonic()
        if len(self.heard) == self.heard.maxlen and now - self.heard[0] < 1.0:
            raise RefusedError(Close.TOO_MANY)
        self.heard.append(now)
        spoken = protocol.parse(text_data)
        if isinstance(spoken, Hello):
            if not viewer.greeted:
                # Even a page that is never closed shows its session now and then.
                self.wake(protocol.LIFE_SECONDS, Close.RESTART)
            await hub.greet(viewer, spoken)
        else:
            hub.ack(viewer, spoken.n)

    async def disconnect(self, code: int) -> None:
        self.leave()

    async def say(self, text: str) -> None:
        if not self.closed:
            await self.send(text)

    async def refuse(self, code: Close) -> None:
        if not self.closed:
            self.leave()
            await self.close(code)

    def leave(self) -> None:
        self.closed = True
        if self.alarm is not None:
            self.alarm.cancel()
        if self.viewer is not None:
            hub.audience.leave(self.viewer)

    def wake(self, seconds: float, code: Close) -> None:
        """End the socket after so long, unless another end is set."""
        if self.alarm is not None:
            self.alarm.cancel()
        assert self.viewer is not None
        loop = asyncio.get_running_loop()
        self.alarm = loop.call_later(seconds, self.viewer.end, code)


def _badge(scope: Mapping[str, Any]) -> Badge:
    """Read what the handshake showed. Raises RefusedError when nobody is signed in."""
    path = LIVE_PATH.fullmatch(scope["path"])
    assert path is not None
    user = scope["user"]
    if not user.is_authenticated:
        raise RefusedError(Close.SIGNED_OUT)
    peer = (scope.get("client") or ("",))[0]
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
    }
    return Badge(
        session=scope["session"].session_key,
        operator=user.pk,
        project=path[1],
        near=access.is_near(peer, host=headers.get("host", ""), headers=headers),
    )


hub.bell = Listener("live")
