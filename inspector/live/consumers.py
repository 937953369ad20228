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
from inspector.live.protocol import LiveCloseCode, LiveHello, SocketRefusedError
from inspector.live.standing import SocketBadge
from memoryhub.journal.log.listener import Listener
from memoryhub.queries.threads.readers import read

log = structlog.get_logger()

LIVE_PATH = re.compile(r"/ws/live/([a-z0-9-]{1,40})")


class LiveConsumer(AsyncWebsocketConsumer):
    """Socket of a page. Refuses after accepting, so that browsers see the code."""

    #: A layer that does not exist: the hub has one channel for all pages.
    channel_layer_alias = "none"

    def __init__(self) -> None:
        super().__init__()
        self.viewer: Viewer | None = None
        self.heard: deque[float] = deque(maxlen=protocol.MESSAGES_PER_SECOND)
        self.alarm: asyncio.TimerHandle | None = None
        self.closed = False

    async def dispatch(self, message: Mapping[str, Any]) -> None:
        # Channels would first close old database connections in a thread; here only
        # reader threads have connections.
        handler = getattr(self, message["type"].replace(".", "_"))
        try:
            await handler(message)
        except SocketRefusedError as refused:
            await self.refuse(refused.code)

    async def connect(self) -> None:
        await self.accept()
        badge = _read_badge(self.scope)
        found = (await read(standing.list_rights, {badge}))[badge]
        if found.close is not None:
            # A project of others gets the same code as an unknown project.
            unknown = found.close is LiveCloseCode.FORBIDDEN
            raise SocketRefusedError(
                LiveCloseCode.NOT_FOUND if unknown else found.close
            )
        viewer = Viewer(badge=badge, standing=found, send=self.say, close=self.refuse)
        hub.audience.admit(viewer)
        self.viewer = viewer
        self.schedule_end(protocol.HELLO_SECONDS, LiveCloseCode.SILENT)

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None
    ) -> None:
        viewer = self.viewer
        if self.closed or viewer is None:
            # Drop a message that was under way when the server closed the socket.
            return
        now = time.monotonic()
        if len(self.heard) == self.heard.maxlen and now - self.heard[0] < 1.0:
            raise SocketRefusedError(LiveCloseCode.TOO_MANY)
        self.heard.append(now)
        spoken = protocol.parse(text_data)
        if isinstance(spoken, LiveHello):
            if not viewer.greeted:
                # A page that is never closed must present its session again.
                self.schedule_end(protocol.LIFE_SECONDS, LiveCloseCode.RESTART)
            await hub.greet(viewer, spoken)
        else:
            hub.ack(viewer, spoken.n)

    async def disconnect(self, code: int) -> None:
        self.leave()

    async def say(self, text: str) -> None:
        if not self.closed:
            await self.send(text)

    async def refuse(self, code: LiveCloseCode) -> None:
        if not self.closed:
            self.leave()
            await self.close(code)

    def leave(self) -> None:
        self.closed = True
        if self.alarm is not None:
            self.alarm.cancel()
        if self.viewer is not None:
            hub.audience.leave(self.viewer)

    def schedule_end(self, seconds: float, code: LiveCloseCode) -> None:
        """Schedule the end of the socket, in place of an earlier schedule."""
        if self.alarm is not None:
            self.alarm.cancel()
        assert self.viewer is not None
        loop = asyncio.get_running_loop()
        self.alarm = loop.call_later(seconds, self.viewer.end, code)


def _read_badge(scope: Mapping[str, Any]) -> SocketBadge:
    """Read the badge of a handshake. Raises SocketRefusedError if signed out."""
    path = LIVE_PATH.fullmatch(scope["path"])
    assert path is not None
    user = scope["user"]
    if not user.is_authenticated:
        raise SocketRefusedError(LiveCloseCode.SIGNED_OUT)
    peer = (scope.get("client") or ("",))[0]
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
    }
    return SocketBadge(
        session=scope["session"].session_key,
        operator=user.pk,
        project=path[1],
        near=access.is_local_peer(peer, host=headers.get("host", ""), headers=headers),
    )


hub.bell = Listener("live")
