"""Heads of requests that never end, on connections of a real server."""

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
from memoryhub.management.serving.server import server

GET = b"GET / HTTP/1.1\r\nhost: a\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


class Line:
    """A connection that says what it is told and hears what comes."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self) -> bytes:
        """A whole answer of `sized`, or as much of one as came before the end."""
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
        """All that comes until the server hangs up."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


async def sized(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the size of the body that came."""
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
    """Opens connections to a server; both ends are closed afterwards."""
    config = uvicorn.Config(sized, http=HeadBound, lifespan="off", log_config=None)
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


async def test_a_head_without_end_is_refused(call: Call) -> None:
    line = await call()
    await line.say(GET, b"x: ", *(b"y" * 1024 for _ in range(HEAD_BYTES // 1024 + 1)))
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_many_short_headers_without_end_are_refused(call: Call) -> None:
    line = await call()
    await line.say(GET, *(b"x: y\r\n" * 100 for _ in range(HEAD_BYTES // 600 + 1)))
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_an_address_without_end_is_refused(call: Call) -> None:
    line = await call()
    await line.say(b"GET /", *(b"y" * 1024 for _ in range(9)))
    assert (await line.rest()).startswith(b"HTTP/1.1 414 ")


async def test_a_second_head_has_the_same_bounds(call: Call) -> None:
    line = await call()
    await line.say(GET, b"\r\n")
    assert (await line.answer()).endswith(b"\r\n\r\n0")
    await line.say(GET, b"x: ", *(b"y" * 1024 for _ in range(HEAD_BYTES // 1024 + 1)))
    assert (await line.rest()).startswith(b"HTTP/1.1 431 ")


async def test_trailers_without_end_are_cut(call: Call) -> None:
    line = await call()
    await line.say(POST, CHUNKED, b"1\r\na\r\n0\r\n")
    trailers = (b"x: " + b"y" * 1024 + b"\r\n" for _ in range(10_000))
    with pytest.raises(ConnectionError):
        await line.say(*trailers)


async def test_bodies_are_no_heads(call: Call) -> None:
    line = await call()
    size = HEAD_BYTES * 4
    await line.say(POST, b"content-length: %d\r\n\r\n" % size, b"a" * size)
    assert (await line.answer()).endswith(str(size).encode())
    await line.say(POST, CHUNKED, b"1\r\na\r\n" * size, b"0\r\n\r\n")
    assert (await line.answer()).endswith(str(size).encode())


async def test_a_head_as_long_as_the_gate_lets_through_is_taken(call: Call) -> None:
    line = await call()
    await line.say(b"GET /", b"y" * 8_000, b" HTTP/1.1\r\nhost: a\r\nx: ")
    await line.say(b"y" * 16_000, b"\r\n\r\n")
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET, b"\r\n"])
async def test_a_head_that_does_not_come_is_not_waited_for(
    call: Call, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.05)
    line = await call()
    await line.say(sent)
    assert await line.rest() == b""


async def test_nor_is_a_second_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.2)
    line = await call()
    await line.say(GET, b"\r\n")
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
    # What has begun is no idle connection to uvicorn, which would wait for ever.
    await line.say(GET)
    assert await line.rest() == b""


async def test_a_body_has_its_own_time(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", 0.05)
    slow, late = await call(), await call()
    await slow.say(POST, b"content-length: 2\r\n\r\n", b"a")
    # One that is cut shows that the other's time would be up as well.
    assert await late.rest() == b""
    await slow.say(b"b")
    assert (await slow.answer()).endswith(b"\r\n\r\n2")


GARBAGE = b"no request at all\r\n\r\n"


async def test_what_is_no_request_is_answered_by_a_400(call: Call) -> None:
    for before in (b"", GET + b"\r\n"):
        line = await call()
        await line.say(before)
        if before:
            assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
        await line.say(GARBAGE)
        assert (await line.rest()).startswith(b"HTTP/1.1 400 ")


async def test_nor_does_it_take_the_place_of_another_answer(call: Call) -> None:
    """Whatever stands behind a request, its own answer comes, and is the last."""
    line = await call()
    await line.say(POST + b"content-length: 1\r\n\r\na" + GARBAGE)
    assert (await line.answer()).endswith(b"\r\n\r\n1")
    assert await line.rest() == b""
    pipelined = await call()
    await pipelined.say((POST + b"content-length: 1\r\n\r\na") * 3 + GARBAGE)
    for _ in range(3):
        assert (await pipelined.answer()).endswith(b"\r\n\r\n1")
    assert await pipelined.rest() == b""


async def test_a_body_that_can_not_be_read_is_answered_by_a_400(call: Call) -> None:
    line = await call()
    await line.say(POST, CHUNKED, b"1\r\na\r\n", b"no size\r\n")
    assert (await line.rest()).startswith(b"HTTP/1.1 400 ")
    behind = await call()
    # Of the first nothing is known then, but that the second was not taken for it.
    await behind.say(GET + b"\r\n" + POST + CHUNKED + b"no size\r\n" + GET + b"\r\n")
    assert b"400" not in await behind.rest()


def test_this_is_the_uvicorn_whose_insides_these_are() -> None:
    # Read its protocol again before this number is changed.
    assert version("uvicorn").startswith("0.54.")


def test_the_server_uses_it() -> None:
    assert server(listening=lambda: None).config.http is HeadBound
