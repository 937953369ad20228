"""Socket frames that never end or are never read, on connections of a server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from memoryhub.management.serving import frames
from memoryhub.management.serving.frames import MAX_PARTS, FrameBound
from memoryhub.management.serving.heads import HeadBound
from memoryhub.management.serving.server import build_server

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
#: Bytes of the connection's buffers, small so that a stuck peer is soon noticed.
BUFFER_BYTES = 8 * 1024
PATIENCE = 20


class Line:
    """A peer that sends and reads only when told."""

    def __init__(self, sock: socket.socket, protocol: Any) -> None:
        self.sock, self.protocol = sock, protocol

    async def say(self, *sent: Frame) -> None:
        data = b"".join(frame.serialize(mask=True) for frame in sent)
        async with asyncio.timeout(PATIENCE):
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def rest(self) -> bytes:
        """Return all bytes until the server hangs up."""
        found, loop = b"", asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionResetError):
                while part := await loop.sock_recv(self.sock, 65_536):
                    found += part
        return found

    async def lost(self) -> None:
        """Wait until the server has dropped the connection."""
        await until(lambda: self.protocol.disconnected)

    async def wait_for_close(self) -> None:
        await until(lambda: self.protocol.close_sent)

    async def stuck(self) -> None:
        """Wait until the server waits for its peer to read."""
        await until(lambda: not self.protocol.writable.is_set())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            # One turn of the loop lets the server run.
            await asyncio.sleep(0)
            if condition():
                return


async def patient(scope: Any, receive: Any, send: Any) -> None:
    """ASGI application that reads all messages and sends none."""
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def talkative(scope: Any, receive: Any, send: Any) -> None:
    """ASGI application that sends without end, until a message makes it close."""
    await receive()
    await send({"type": "websocket.accept"})

    async def talk() -> None:
        with suppress(OSError):
            while True:
                await send({"type": "websocket.send", "text": "x" * BUFFER_BYTES})

    talking = asyncio.create_task(talk())
    heard = await receive()
    talking.cancel()
    await asyncio.wait([talking])
    if heard["type"] != "websocket.disconnect":
        await send({"type": "websocket.close", "code": 4401})


Call = Callable[..., Awaitable[Line]]


@pytest_asyncio.fixture
async def call() -> AsyncIterator[Call]:
    """Return a function that opens sockets to an application; close both ends."""
    loop = asyncio.get_running_loop()
    lines: list[Line] = []
    stops: list[Callable[[], Any]] = []
    tasks: set[Any] = set()

    async def open_line(application: Any, **options: Any) -> Line:
        given: dict[str, Any] = {"ws": FrameBound, "ws_max_size": 65_536, **options}
        config = uvicorn.Config(
            application, http=HeadBound, lifespan="off", log_config=None, **given
        )
        state = ServerState()
        listening = await loop.create_server(
            lambda: HeadBound(config, state, {}), "127.0.0.1", 0
        )
        stops.append(listening.close)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.setblocking(False)
        await loop.sock_connect(sock, listening.sockets[0].getsockname())
        await loop.sock_sendall(sock, HANDSHAKE)
        async with asyncio.timeout(PATIENCE):
            head = await loop.sock_recv(sock, 12)
        assert head == b"HTTP/1.1 101"
        (protocol,) = state.connections
        theirs = protocol.transport.get_extra_info("socket")
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        tasks.update(state.tasks)
        lines.append(Line(sock, protocol))
        return lines[-1]

    yield open_line
    for line in lines:
        line.sock.close()
        line.protocol.transport.abort()
    for stop in stops:
        stop()
    await asyncio.gather(*tasks)


PART = Frame(Opcode.CONT, b"", fin=False)
PINGS = [Frame(Opcode.PING, b"x" * 125)] * 500


@pytest.mark.parametrize(
    ("protocol", "bounded"), [(FrameBound, True), (WebSocketsSansIOProtocol, False)]
)
async def test_pings_of_a_peer_that_does_not_read_are_not_answered(
    call: Call, protocol: Any, *, bounded: bool
) -> None:
    """The unbounded protocol is the control: its pongs are all kept."""
    line = await call(patient, ws=protocol)
    for _ in range(20):
        await line.say(*PINGS)
    # The server read the last ping if it reads the next message.
    await line.say(Frame(Opcode.TEXT, b"x" * 65_537))
    await line.wait_for_close()
    held = line.protocol.transport.get_write_buffer_size()
    assert (held < 300_000) is bounded


async def test_pings_are_answered(call: Call) -> None:
    line = await call(patient)
    await line.say(Frame(Opcode.PING, b"one"), Frame(Opcode.CLOSE, b"\x03\xe8"))
    pong = Frame(Opcode.PONG, b"one").serialize(mask=False)
    assert pong in await line.rest()


async def test_message_of_endless_parts_closes_with_1009(call: Call) -> None:
    line = await call(patient)
    await line.say(Frame(Opcode.TEXT, b"", fin=False), *[PART] * (MAX_PARTS + 1))
    assert (await line.rest()).endswith((1009).to_bytes(2, "big"))


async def test_message_of_several_parts_is_joined(call: Call) -> None:
    line = await call(patient)
    whole = [Frame(Opcode.TEXT, b"", fin=False), *[PART] * 900, Frame(Opcode.CONT, b"")]
    await line.say(*whole, Frame(Opcode.CLOSE, b"\x03\xe8"))
    assert (await line.rest()).endswith((1000).to_bytes(2, "big"))


async def test_peer_that_does_not_read_the_close_frame_is_cut_off(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LINGER_SECONDS", 0.05)
    line = await call(talkative)
    await line.stuck()
    await line.say(Frame(Opcode.TEXT, b"enough"))
    await line.lost()


async def test_peer_that_breaks_the_protocol_unread_is_cut_off(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LINGER_SECONDS", 0.05)
    line = await call(talkative)
    await line.stuck()
    await line.say(Frame(Opcode.TEXT, b"x" * 65_537))
    await line.lost()


async def test_peer_that_neither_reads_nor_answers_pings_is_cut_off(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LINGER_SECONDS", 0.05)
    line = await call(talkative, ws_ping_interval=0.05, ws_ping_timeout=0.05)
    await line.stuck()
    await line.lost()


async def test_peer_that_reads_late_receives_the_close_frame(call: Call) -> None:
    line = await call(talkative)
    await line.stuck()
    await line.say(Frame(Opcode.TEXT, b"enough"))
    rest = asyncio.create_task(line.rest())
    await line.wait_for_close()
    await line.say(Frame(Opcode.CLOSE, (4401).to_bytes(2, "big")))
    assert (await rest).endswith((4401).to_bytes(2, "big"))


def test_server_uses_the_frame_bound_protocol() -> None:
    config = build_server(listening=lambda: None).config
    assert config.ws is FrameBound
    assert config.ws_max_size == 64 * 1024
    assert (config.ws_ping_interval, config.ws_ping_timeout) == (20, 20)
