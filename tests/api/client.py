"""A client that speaks ASGI to the real handler, so that every byte is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

import orjson
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from memoryhub.api.handler import build_application
from memoryhub.api.http import gate
from memoryhub.queries.threads.readers import readers

Result = TypeVar("Result")
Header = tuple[str, str]
JSON = ("content-type", "application/json")


def _django() -> Any:
    return ASGIHandler()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])

    def header(self, name: str) -> str | None:
        found = [v.decode() for n, v in self.headers if n.decode().lower() == name]
        return found[0] if found else None

    @property
    def comparable(self) -> tuple[int, dict[str, Any]]:
        """All of the answer but what may differ from one to the next."""
        return self.status, {**self.json, "request_id": ""}


@dataclass(slots=True, kw_only=True)
class Client:
    """One agent's requests."""

    key: str | None
    app: gate.Application = field(default_factory=lambda: build_application(_django()))
    #: The test's own connections: under a loop Django would give each task new ones.
    connections: dict[str, BaseDatabaseWrapper] = field(
        default_factory=lambda: {alias: connections[alias] for alias in connections}
    )
    #: Chunks of a body that were taken from us.
    taken: int = 0

    async def send(
        self,
        method: str,
        target: str | bytes,
        body: object = None,
        *,
        headers: Iterable[Header] = (),
        host: Sequence[str] = ("127.0.0.1",),
        chunks: Iterable[bytes] | None = None,
    ) -> Answer:
        """Send a request; `body` is bytes sent unchanged, or a value sent as JSON."""
        self.connect()
        raw = body if isinstance(body, bytes) else b""
        listed = list(headers)
        if body is not None and not isinstance(body, bytes):
            raw = orjson.dumps(body)
        if body is not None and not any(n == "content-type" for n, _ in listed):
            listed.append(JSON)
        scope = self._build_scope(method, target, listed, host)
        started: dict[str, Any] = {}
        parts: list[bytes] = []
        waiting = list(chunks) if chunks is not None else [raw]

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.sleep(60)
            self.taken += 1
            chunk = waiting.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)
        return Answer(
            status=started["status"], headers=started["headers"], body=b"".join(parts)
        )

    def connect(self) -> None:
        """Let this task use the test's connections."""
        if not readers.is_running:
            for alias, connection in self.connections.items():
                connections[alias] = connection

    def _build_scope(
        self,
        method: str,
        target: str | bytes,
        headers: Iterable[Header],
        host: Sequence[str],
    ) -> dict[str, Any]:
        raw = target.encode() if isinstance(target, str) else target
        path, _, query = raw.partition(b"?")
        if not path.startswith(b"/api"):
            path = b"/api/v1" + path
        sent = [(b"host", name.encode("latin-1")) for name in host]
        if self.key is not None:
            sent.append((b"authorization", f"Bearer {self.key}".encode()))
        sent += [(n.lower().encode(), v.encode("latin-1")) for n, v in headers]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            # Uvicorn builds the scope like this.
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "headers": sent,
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 8000),
        }

    async def get(self, target: str, **options: Any) -> Answer:
        return await self.send("GET", target, **options)

    async def post(self, target: str, body: object, **options: Any) -> Answer:
        return await self.send("POST", target, body, **options)

    async def put(self, target: str, body: object = None, **options: Any) -> Answer:
        return await self.send("PUT", target, body or {}, **options)

    async def patch(self, target: str, body: object, **options: Any) -> Answer:
        return await self.send("PATCH", target, body, **options)

    async def append(
        self, thread: str, *contents: object, **fields: object
    ) -> list[Answer]:
        return [
            await self.post(
                f"/threads/{thread}/slots",
                {**SLOT, "content": content, **fields},
            )
            for content in contents
        ]

    @asynccontextmanager
    async def stream(
        self, target: str, *, headers: Iterable[Header] = (), room: int = 0
    ) -> AsyncIterator[asyncio.Queue[dict[str, Any]]]:
        """Open a stream and hand out its ASGI messages; leaving it disconnects.

        With `room` it takes no more than so many messages ahead of its reader.
        """
        scope = self._build_scope(
            "GET", target, [("accept", "text/event-stream"), *headers], ("localhost",)
        )
        sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue(room)
        left = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def serve() -> None:
            await self.app(scope, receive, sent.put)

        task = asyncio.create_task(serve())
        try:
            yield sent
        finally:
            left.set()
            await asyncio.wait_for(task, 10)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a request in a test that is no coroutine."""
    return asyncio.run(work)


#: A message as it is sent; tests change what they care about.
SLOT = {"from": "user", "to": "assistant", "type": "chat.user", "content": "hello"}
#: The same of a page.
PAGE: dict[str, Any] = {
    "type": "artifact",
    "modality": "text",
    "content": {"text": "Fares."},
}
