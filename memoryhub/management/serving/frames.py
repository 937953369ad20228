"""Socket frames: bounds on the data that a peer can have the server hold.

uvicorn bounds the bytes of a message and waits before it sends to a peer that does not
read. This module bounds the rest: pongs that the peer does not read, messages of
endless empty parts, and close frames that are not read either.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

#: Most parts of one message; no sensible client needs more.
MAX_PARTS = 1_000
TOO_BIG = 1009
#: Seconds that sending a close frame may take.
LINGER_SECONDS = 2.0


class FrameBound(WebSocketsSansIOProtocol):
    """A protocol that disconnects peers that send endless parts or do not read."""

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
        """Send the close frame and keep reading: a reset might overtake the answer."""
        if self.close_sent:
            return
        close = self.conn.close_sent
        assert close is not None
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code})
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_sent = self.disconnected = True
        # uvicorn does not close a connection with a timer when the application returns.
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
        """Abort the connection after a time: a close waits for a reader, maybe for
        ever."""
        if self._cut is None and not self.disconnected:
            self._cut = self.loop.call_later(seconds, self.transport.abort)
