"""Load: clients that append over HTTP, each on one connection that stays open.

A protocol of our own over asyncio, because a full HTTP client costs more than the
server that it measures, on the same machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import cast

import uvloop

from benchmarks import messages
from benchmarks.hubs import Server
from benchmarks.rounds import Sample

CLIENTS = 16
_SERVED = (b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")


def slot(message: messages.Message) -> dict[str, object]:
    """Return the message as the API takes it."""
    role = str(message.get("role", "user"))
    return {"from": role, "to": "memory", "type": f"chat.{role}", "content": message}


def append_request(thread: str, key: str, message: messages.Message) -> bytes:
    """Return the bytes that append one message."""
    return build_request(f"/threads/{thread}/slots", key, slot(message))


def turn_request(thread: str, key: str, message: messages.Message) -> bytes:
    """Return the bytes that append one message and begin a turn."""
    return build_request(f"/threads/{thread}/turns", key, {"items": [slot(message)]})


def fault_request(thread: str, key: str, page_id: str) -> bytes:
    """Return the bytes that fetch a page back, whole."""
    return build_request(f"/threads/{thread}/pages/{page_id}/fault", key, {"level": 0})


def build_request(path: str, key: str, sent: object) -> bytes:
    """Return the bytes that post something to the API."""
    body = json.dumps(sent, separators=(",", ":")).encode()
    head = (
        f"POST /api/v1{path} HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        f"Authorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(slots=True)
class Writers:
    """Clients that append the sample's messages, over and over, to their threads.

    Where there are fewer threads than clients, clients share them.
    """

    server: Server
    key: str
    threads: Sequence[str]
    clients: int = CLIENTS
    said: Sequence[messages.Message] = field(default_factory=messages.messages)
    _requests: list[Iterator[bytes]] = field(init=False)

    def __post_init__(self) -> None:
        names = [self.threads[n % len(self.threads)] for n in range(self.clients)]
        made = {name: self._appends(name) for name in self.threads}
        self._requests = [cycle(made[name]) for name in names]

    def turn(self, seconds: float) -> Sample:
        """Run all clients at once; each sends its next when the last was answered."""
        until = time.perf_counter() + seconds
        return _timed(self.server, self._requests, lambda: time.perf_counter() < until)

    def _appends(self, thread: str) -> list[bytes]:
        return [append_request(thread, self.key, each) for each in self.said]


def write_runs(server: Server, key: str, *, clients: int) -> Sample:
    """Append every message of every run once; a run is the work of one client."""
    runs = messages.runs()
    work = [
        iter(
            [
                append_request(run.name, key, message)
                for run in runs[client::clients]
                for message in run.messages
            ]
        )
        for client in range(clients)
    ]
    return _timed(server, work, lambda: True)


def send_all(server: Server, requests: Sequence[bytes]) -> Sample:
    """Send these requests one after the other, by one client."""
    return _timed(server, [iter(requests)], lambda: True)


def _timed(
    server: Server, work: Sequence[Iterator[bytes]], wanted: Callable[[], bool]
) -> Sample:
    """Run a client for each piece of work, all at once."""

    async def all_clients() -> list[list[float]]:
        sent = (send(server.port, requests, wanted) for requests in work)
        return await asyncio.gather(*sent)

    began, start = server.cpu_seconds(), time.perf_counter()
    times = tuple(chain.from_iterable(uvloop.run(all_clients())))
    seconds, ended = time.perf_counter() - start, server.cpu_seconds()
    cpu = None if began is None or ended is None else ended - began
    return Sample(requests=len(times), seconds=seconds, cpu_seconds=cpu, times=times)


async def send(
    port: int, requests: Iterator[bytes], wanted: Callable[[], bool]
) -> list[float]:
    """Send as one client while requests are wanted and left.

    Returns the seconds of each request. Raises on any answer but 200 and 201.
    """
    loop = asyncio.get_running_loop()
    client = Client(requests, wanted, loop.create_future())
    transport, _ = await loop.create_connection(lambda: client, "127.0.0.1", port)
    try:
        return await client.done
    finally:
        transport.close()


class Client(asyncio.Protocol):
    """Client that sends the next request when the answer to the last is complete."""

    def __init__(
        self,
        requests: Iterator[bytes],
        wanted: Callable[[], bool],
        done: asyncio.Future[list[float]],
    ) -> None:
        self.requests = requests
        self.wanted = wanted
        self.done = done
        self.times: list[float] = []
        self.sent_at = 0.0
        self.answer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's by their class.
        self.transport = cast(asyncio.Transport, transport)
        self.send_next()

    def send_next(self) -> None:
        assert self.transport is not None
        request = next(self.requests, None) if self.wanted() else None
        if request is None:
            self.done.set_result(self.times)
        else:
            self.sent_at = time.perf_counter()
            self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.answer += data
        head, blank, body = self.answer.partition(b"\r\n\r\n")
        if not blank:
            return
        if not head.startswith(_SERVED):
            self.fail(RuntimeError(f"not served: {self.answer[:500]!r}"))
        elif complete(head, body):
            self.go_on()

    def go_on(self) -> None:
        self.times.append(time.perf_counter() - self.sent_at)
        self.answer = b""
        self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(exc or ConnectionError("the server hung up"))

    def fail(self, reason: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(reason)


def complete(head: bytes, body: bytes) -> bool:
    """Tell whether the answer's body is all there, by its length or its last chunk."""
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    if not found:
        return body.endswith(b"0\r\n\r\n")
    return len(body) == int(rest.split(b"\r\n", 1)[0])
