"""Sockets without a network: real messages to the real application."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from uuid import UUID

import orjson
from asgiref.testing import ApplicationCommunicator
from channels.layers import channel_layers
from django.conf import settings
from django.contrib.auth import login
from django.contrib.sessions.backends.db import SessionStore
from django.test import RequestFactory

from inspector import BUILD
from inspector.access import access
from inspector.live.hub import hub
from inspector.loader import loader
from inspector.web.cookies import build_name
from memoryhub.asgi import Lifespan, application
from memoryhub.models.access.operators import Operator
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import operators

ORIGIN = "http://127.0.0.1:8000"
#: What a frame may take on a busy machine; nothing waits this long on purpose.
PATIENCE = 20


def sign_in(operator: Operator) -> str:
    """Make a session as the sign-in page does; return its key."""
    request = RequestFactory().get("/")
    request.session = SessionStore()
    login(request, operator, access.BACKEND)
    access.note_sign_in(request, operator)
    request.session.save()
    return str(request.session.session_key)


@asynccontextmanager
async def serving() -> AsyncIterator[None]:
    """Run the parts of a server beside its sockets: writer, readers, doorbell, hub."""
    # The layer in memory belongs to the loop that first used it.
    channel_layers.backends.clear()
    lifespan = Lifespan()
    await lifespan.start()
    try:
        yield
    finally:
        await lifespan.stop()
        channel_layers.backends.clear()


async def restart_hub() -> None:
    """Start the hub anew, with whatever a test has set.

    Loaded first: else the first socket would start the hub a second time, and stopping
    it might wait for tasks of an earlier test's loop.
    """
    await loader.load()
    await hub.stop()
    await hub.start()


class Line:
    """Socket, whoever opens it."""

    def __init__(
        self,
        path: str,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        client: str = "127.0.0.1",
        host: str = "127.0.0.1:8000",
        query: bytes = b"",
        room: int = 0,
    ) -> None:
        scope = {
            "type": "websocket",
            "scheme": "ws",
            "path": path,
            "headers": [(b"host", host.encode()), *headers],
            "query_string": query,
            "client": (client, 50000),
            "subprotocols": [],
        }
        self.line: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]  # asgiref
        # With `room`, a peer that takes no more than so many messages unread.
        self.line._output_queue = asyncio.Queue(room)

    async def open(self) -> dict[str, Any]:
        """Connect and return the answer to the handshake."""
        await self.line.send_input({"type": "websocket.connect"})
        answer: dict[str, Any] = await self.line.receive_output(PATIENCE)
        return answer

    async def send(self, message: Mapping[str, Any] | str | bytes) -> None:
        if isinstance(message, bytes):
            await self.line.send_input({"type": "websocket.receive", "bytes": message})
            return
        text = message if isinstance(message, str) else orjson.dumps(message).decode()
        await self.line.send_input({"type": "websocket.receive", "text": text})

    async def receive(self) -> str:
        message = await self.line.receive_output(PATIENCE)
        assert message["type"] == "websocket.send", message
        text: str = message["text"]
        return text

    async def read_closing_code(self) -> int:
        """Return the server's closing code, whatever it sends before."""
        while True:
            message = await self.line.receive_output(PATIENCE)
            if message["type"] == "websocket.close":
                code: int = message.get("code", 1000)
                return code

    async def leave(self) -> None:
        await self.line.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.line.wait(PATIENCE)


class AgentSocket(Line):
    """Agent's socket. It names threads to follow and hears events, one JSON each."""

    def __init__(
        self,
        key: str | None = None,
        *,
        path: str = "/ws/v1/agent",
        headers: Iterable[tuple[bytes, bytes]] = (),
        **given: Any,
    ) -> None:
        shown = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
        super().__init__(path, [*shown, *headers], **given)

    async def greet(self, **hello: str) -> Self:
        """Open the socket, say hello if given one, and hear the server's."""
        assert (await self.open())["type"] == "websocket.accept"
        if hello:
            await self.send({"t": "hello", **hello})
        assert await self.hear() == {"t": "hello", "v": 1}
        return self

    async def follow(self, thread: str, after: int = 0, **fields: Any) -> None:
        await self.send({"t": "follow", "thread": thread, "after": after} | fields)

    async def hear(self) -> dict[str, Any]:
        said: dict[str, Any] = orjson.loads(await self.receive())
        return said


class Socket(Line):
    """Page's socket. Text from `{` is control, else a push."""

    def __init__(
        self,
        session: str = "",
        *,
        path: str = "/ws/live/acme",
        origin: str | None = ORIGIN,
        client: str = "127.0.0.1",
        host: str = "127.0.0.1:8000",
    ) -> None:
        headers = [] if origin is None else [(b"origin", origin.encode())]
        if session:
            cookie = f"{build_name(settings.SESSION_COOKIE_NAME, host)}={session}"
            headers.append((b"cookie", cookie.encode()))
        super().__init__(path, headers, client=client, host=host)

    async def hello(
        self, wants: Mapping[UUID, tuple[int, list[str]]], **fields: Any
    ) -> dict[str, Any]:
        """Say what is shown, by thread: seq and panels; return the server's hello."""
        want = [
            {"thread": str(thread), "panels": panels, "seq": seq}
            for thread, (seq, panels) in wants.items()
        ]
        await self.send({"t": "hello", "v": 1, "build": BUILD, "want": want} | fields)
        return await self.control("hello")

    async def ack(self, push: str) -> None:
        await self.send({"t": "ack", "n": number_of(push)})

    async def control(self, kind: str) -> dict[str, Any]:
        """Return the next control message of a kind, skipping others."""
        while True:
            text = await self.receive()
            if text.startswith("{") and orjson.loads(text)["t"] == kind:
                said: dict[str, Any] = orjson.loads(text)
                return said

    async def push(self) -> str:
        """Return the next push, skipping control messages."""
        while True:
            text = await self.receive()
            if not text.startswith("{"):
                return text


async def send_until_closed(line: Line, *messages: Any) -> int:
    """Send these messages after the handshake; return the closing code."""
    assert (await line.open())["type"] == "websocket.accept"
    for message in messages:
        await line.send(message)
    code = await line.read_closing_code()
    await line.leave()
    return code


async def read_end_code(key: str, thread: str) -> str:
    """Return the code by which an agent hears that it cannot follow the thread."""
    socket = await AgentSocket(key).greet()
    await socket.follow(thread)
    said = await socket.hear()
    assert (said.pop("t"), said.pop("thread")) == ("gone", thread)
    await socket.leave()
    return str(said["code"])


async def heard(socket: AgentSocket, count: int) -> list[dict[str, Any]]:
    """Return the next so many messages."""
    return [await socket.hear() for _ in range(count)]


def number_of(push: str) -> int:
    """Return the number of a push, from its mark."""
    return int(push.partition(' data-n="')[2].partition('"')[0])


# Run in processes of their own, see tests.harness.instances


def print_session(name: str = "", role: str = "") -> None:
    """Sign an operator in, the default one where none is named.

    With a role, the operator is made if need be and has that role in acme.
    """
    operator = operators.find(name) if name else operators.ensure_default()
    if role:
        operator = operator or operators.add(name)
        operators.set_role(Project.objects.get(slug="acme"), operator, role)
    assert operator is not None
    sys.stdout.write(sign_in(operator))


def print_thread(name: str) -> None:
    """Print the id of a thread of acme."""
    thread = Thread.objects.get(project__slug="acme", name=name)
    sys.stdout.write(str(thread.id))
