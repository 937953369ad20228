"""Frames of sockets: bounds on what a peer can have the server hold for it.

uvicorn bounds the bytes of a message and waits before it sends to a peer that does not
read. Here is what that leaves open: answers to pings that nobody takes, messages of
ever more parts without a byte in them, and goodbyes that are not read either.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

#: Of one message. Nobody who has a reason to divide one needs more.
MAX_PARTS = 1_000
TOO_BIG = 1009
#: How long a close frame may take on its way out.
LINGER_SECONDS = 2.0


class FrameBound(WebSocketsSansIOProtocol):
    """Hangs up on who sends without end, or does not take what it is sent."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cut: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cut is not None:
            self._cut.cancel()
        super().connection_lost(exc)

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            # Only the latest of many pings need be answered (RFC 6455, section 5.5.3).
            self.conn.data_to_send()

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < MAX_PARTS:
            super().handle_cont(event)
        else:
            self.conn.fail(TOO_BIG)
            self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        """Say why, and read what still comes: else a reset may overtake the answer."""
        if self.close_sent:
            return
        close = self.conn.close_sent
        assert close is not None
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code})
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_sent = self.disconnected = True
        # What has a timer is not closed when the application returns.
        self.close_timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._cut_after(LINGER_SECONDS)

    async def send(self, message: Any) -> None:
        if message["type"] != "websocket.close":
            await super().send(message)
            return
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await super().send(message)
        except TimeoutError:
            self.transport.abort()
        else:
            self._cut_after(self.close_timeout + LINGER_SECONDS)

    def _cut_after(self, seconds: float) -> None:
        """Closing waits until all was taken, which may be never."""
        if self._cut is None and not self.disconnected:
            self._cut = self.loop.call_later(seconds, self.transport.abort)
