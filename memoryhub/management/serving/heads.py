"""Request heads: bounds on bytes and time before a request is complete.

uvicorn collects a request's line and headers as long as they come, and hands over
complete heads. The application refuses a complete head that is too large.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from memoryhub.api.http.gate import HEADER_BYTES, URL_BYTES
from memoryhub.management.serving.joined import JoiningTransport

#: Above the gate's limit, so that the gate refuses most oversized heads itself.
HEAD_BYTES = HEADER_BYTES + URL_BYTES + 1024
HEAD_SECONDS = 15.0
#: Framing bytes of a chunk of a body, which do not count as head.
_CHUNK_BYTES = 8


class HeadBound(HttpToolsProtocol):
    """A protocol that disconnects on a head, or trailers, too long or too slow."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.url = b""
        self._in_head = True
        #: Bytes since the last complete head or message, without bytes of bodies.
        self._spent = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's
        super().connection_made(JoiningTransport(transport, self.loop))  # type: ignore[arg-type]  # all that is used of one
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._spent += len(data)
        super().data_received(data)
        self._spent = max(self._spent, 0)
        if self.transport.is_closing():
            return
        if self._in_head and len(self.url) > URL_BYTES:
            self._refuse(414)
        elif self._spent > HEAD_BYTES:
            self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head, self._spent = False, 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._spent -= len(body) + _CHUNK_BYTES
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._spent = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._expect_head()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request, but never in place of another answer.

        A client with a too small Content-Length sends such bytes after a complete
        request: the connection ends with the answer to that request.
        """
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            super().send_400_response(msg)
        elif not cycle.more_body:
            cycle.keep_alive = False
        elif self.pipeline or cycle.response_started:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _refuse(self, status: int) -> None:
        cycle: Any = self.cycle  # None before the first request
        if self._in_head and (cycle is None or cycle.response_complete):
            close = b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + close)
        self.transport.close()

    def _expect_head(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
