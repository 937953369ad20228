"""Request heads that never end, on connections of a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from uvicorn.server import ServerState

from memoryhub.management.serving import heads
from memoryhub.management.serving.heads import HEAD_BYTES, HeadBound
from memoryhub.management.serving.server import build_server

GET = b"GET / HTTP/1.1\r\nhost: a\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


class Line:
    """A connection that sends what it is told, and returns what arrives."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self) -> bytes:
        """Read a whole answer of `sized`, or as much as came before the end."""
        head = b""
        async with asyncio.timeout(20):
            while not head.endswith(b"\r\n\r\n"):
                byte = await self.reader.read(1)
                if not byte:
                    return head
                head += byte
            size = int(head.lower().partition(b"content-length: ")[2].split()[0])
            return head + await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        """Return all bytes until the server hangs up."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


async def answer_with_size(scope: Any, receive: Any, send: Any) -> None:
    """ASGI application that answers with the size of the request's body."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    body = str(size).encode()
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": body})


Call = Callable[[], Awaitable[Line]]


@pytest_asyncio.fixture
async def call() -> AsyncIterator[Call]:
    """Return a function that opens connections to a server; close both ends."""
    config = uvicorn.Config(
        answer_with_size, http=HeadBound, lifespan="off", log_config=None
    )
    state = ServerState()
    listening = await asyncio.get_running_loop().create_server(
        lambda: HeadBound(config, state, {}), "127.0.0.1", 0
    )
    port = listening.sockets[0].getsockname()[1]
    lines: list[Line] = []

    async def open_line() -> Line:
        lines.append(Line(*await asyncio.open_connection("127.0.0.1", port)))
        return lines[-1]

    yield open_line
    for line in lines:
        line.writer.close()
        with suppress(ConnectionError):
            await line.writer.wait_closed()
    listening.close()
    await listening.wait_closed()
    await asyncio.gather(*state.tasks)


async def test_endless_request_head_is_refused(call: Call) -> None:
    line = await call()
    await line.say(GET, b"x: ", *(b"y" * 1024 for _ in range(HEAD_BYTES // 1024 + 1)))
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_endless_short_headers_are_refused(call: Call) -> None:
    line = await call()
    await line.say(GET, *(b"x: y\r\n" * 100 for _ in range(HEAD_BYTES // 600 + 1)))
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_endless_request_target_is_refused(call: Call) -> None:
    line = await call()
    await line.say(b"GET /", *(b"y" * 1024 for _ in range(9)))
    assert (await line.rest()).startswith(b"HTTP/1.1 414 ")


async def test_second_head_of_a_connection_has_the_same_bounds(call: Call) -> None:
    line = await call()
    await line.say(GET, b"\r\n")
    assert (await line.answer()).endswith(b"\r\n\r\n0")
    await line.say(GET, b"x: ", *(b"y" * 1024 for _ in range(HEAD_BYTES // 1024 + 1)))
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_endless_trailers_are_cut_off(call: Call) -> None:
    line = await call()
    await line.say(POST, CHUNKED, b"1\r\na\r\n0\r\n")
    trailers = (b"x: " + b"y" * 1024 + b"\r\n" for _ in range(10_000))
    with pytest.raises(ConnectionError):
        await line.say(*trailers)


async def test_request_body_is_not_bounded_as_a_head(call: Call) -> None:
    line = await call()
    size = HEAD_BYTES * 4
    await line.say(POST, b"content-length: %d\r\n\r\n" % size, b"a" * size)
    assert (await line.answer()).endswith(str(size).encode())
    await line.say(POST, CHUNKED, b"1\r\na\r\n" * size, b"0\r\n\r\n")
    assert (await line.answer()).endswith(str(size).encode())


async def test_longest_head_that_the_gate_allows_is_taken(call: Call) -> None:
    line = await call()
    await line.say(b"GET /", b"y" * 8_000, b" HTTP/1.1\r\nhost: a\r\nx: ")
    await line.say(b"y" * 16_000, b"\r\n\r\n")
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET, b"\r\n"])
async def test_slow_request_head_times_out(
    call: Call, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.05)
    line = await call()
    await line.say(sent)
    assert await line.rest() == b""


async def test_slow_second_head_times_out(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.2)
    line = await call()
    await line.say(GET, b"\r\n")
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
    # A begun head is not idle for uvicorn, which would wait for ever.
    await line.say(GET)
    assert await line.rest() == b""


async def test_request_body_has_its_own_timeout(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.05)
    slow, late = await call(), await call()
    await slow.say(POST, b"content-length: 2\r\n\r\n", b"a")
    # The connection that is cut shows that the other's time is over as well.
    assert await late.rest() == b""
    await slow.say(b"b")
    assert (await slow.answer()).endswith(b"\r\n\r\n2")


GARBAGE = b"no request at all\r\n\r\n"


async def test_garbage_is_answered_by_400(call: Call) -> None:
    for before in (b"", GET + b"\r\n"):
        line = await call()
        await line.say(before)
        if before:
            assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
        await line.say(GARBAGE)
        assert (await line.rest()).startswith(b"HTTP/1.1 400 ")


async def test_garbage_after_a_request_does_not_replace_its_answer(call: Call) -> None:
    """The answer to the request before the garbage comes, and is the last."""
    line = await call()
    await line.say(POST + b"content-length: 1\r\n\r\na" + GARBAGE)
    assert (await line.answer()).endswith(b"\r\n\r\n1")
    assert await line.rest() == b""
    pipelined = await call()
    await pipelined.say((POST + b"content-length: 1\r\n\r\na") * 3 + GARBAGE)
    for _ in range(3):
        assert (await pipelined.answer()).endswith(b"\r\n\r\n1")
    assert await pipelined.rest() == b""


async def test_unreadable_body_is_answered_by_400(call: Call) -> None:
    line = await call()
    await line.say(POST, CHUNKED, b"1\r\na\r\n", b"no size\r\n")
    assert (await line.rest()).startswith(b"HTTP/1.1 400 ")
    behind = await call()
    # The first request's answer is open; the second must not be taken for the first.
    await behind.say(GET + b"\r\n" + POST + CHUNKED + b"no size\r\n" + GET + b"\r\n")
    assert b"400" not in await behind.rest()


def test_uvicorn_version_is_the_reviewed_one() -> None:
    # Read its protocol again before this number is changed.
    assert version("uvicorn").startswith("0.54.")


def test_server_uses_the_head_bound_protocol() -> None:
    assert build_server(listening=lambda: None).config.http is HeadBound
