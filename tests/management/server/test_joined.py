"""Joined writes: a response leaves whole, delayed by one turn of the loop at most."""

from __future__ import annotations

import asyncio
from typing import cast

from memoryhub.management.serving.joined import JoiningTransport

HEAD, BODY = b"HTTP/1.1 200 OK\r\n\r\n", b"body"


class Wire(asyncio.Transport):
    """A transport that records each write to the system."""

    def __init__(self) -> None:
        super().__init__({"peername": "there"})
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True


def join_wire() -> tuple[Wire, JoiningTransport]:
    wire = Wire()
    return wire, JoiningTransport(
        cast(asyncio.Transport, wire), asyncio.get_running_loop()
    )


async def test_response_head_leaves_with_its_body() -> None:
    wire, line = join_wire()
    line.write(HEAD)
    line.write(BODY)
    line.write(BODY)
    assert wire.sent == [HEAD + BODY, BODY]


async def test_response_head_does_not_wait_for_a_later_body() -> None:
    wire, line = join_wire()
    line.write(HEAD)
    assert wire.sent == []
    await asyncio.sleep(0)
    assert wire.sent == [HEAD]
    line.write(BODY)
    await asyncio.sleep(0)
    assert wire.sent == [HEAD, BODY]


async def test_response_heads_keep_their_order() -> None:
    wire, line = join_wire()
    line.write(HEAD)
    line.write(BODY)
    line.write(HEAD)
    await asyncio.sleep(0)
    assert wire.sent == [HEAD + BODY, HEAD]


async def test_response_head_leaves_before_the_connection_closes() -> None:
    wire, line = join_wire()
    line.write(HEAD)
    line.close()
    assert (wire.sent, wire.closed) == ([HEAD], True)
    await asyncio.sleep(0)
    assert wire.sent == [HEAD]


async def test_joined_transport_delegates_everything_else() -> None:
    assert join_wire()[1].get_extra_info("peername") == "there"
