"""Composed application: the sockets that are let in, and the process's lifespan."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.exceptions import DisallowedHost
from django.test import Client
from pytest_django import Settings

from memoryhub.api.http import gate
from memoryhub.asgi import (
    Http,
    Lifespan,
    OwnOrigin,
    PageRequest,
    SocketRouter,
    application,
)
from memoryhub.journal import writer
from memoryhub.queries.threads.readers import readers

OURS = "http://127.0.0.1:8000"


def line_to(app: Any, scope: dict[str, Any]) -> Any:
    return ApplicationCommunicator(app, scope)  # type: ignore[no-untyped-call]  # asgiref's


async def greeter(scope: Any, receive: Any, send: Any) -> None:
    """Let everybody in; the layer in front decides."""
    await receive()
    await send({"type": "websocket.accept"})


async def first_reply(
    app: Any, path: str = "/ws/live/acme", **scope: Any
) -> dict[str, Any]:
    whole = {"type": "websocket", "path": path, "headers": [], "scheme": "ws", **scope}
    line = line_to(app, {"query_string": b"unknown", **whole})
    await line.send_input({"type": "websocket.connect"})
    reply: dict[str, Any] = await line.receive_output(timeout=10)
    await line.wait(timeout=10)
    return reply


def build_headers(origin: str | None, host: str = "127.0.0.1:8000") -> list[Any]:
    own = [] if origin is None else [(b"origin", origin.encode("latin-1"))]
    return [(b"host", host.encode()), *own]


@pytest.mark.parametrize(
    ("origin", "host", "let_in"),
    [
        (OURS, "127.0.0.1:8000", True),
        ("http://localhost:8000", "localhost:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://127.0.0.1", "127.0.0.1:80", True),
        ("http://127.0.0.1:8001", "127.0.0.1:8000", False),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", False),
        ("http://localhost:8000", "127.0.0.1:8000", False),
        ("http://evil.example", "127.0.0.1:8000", False),
        # A name that somebody else points at us: equal, and still not ours.
        ("http://evil.example:8000", "evil.example:8000", False),
        ("null", "127.0.0.1:8000", False),
        (None, "127.0.0.1:8000", False),
        ("", "127.0.0.1:8000", False),
        ("http://127.0.0.1:8000@evil.example", "127.0.0.1:8000", False),
        ("http://127.0.0.1:x", "127.0.0.1:8000", False),
        ("http://127.0.0.1:99999", "127.0.0.1:8000", False),
        ("http://[::1", "127.0.0.1:8000", False),
        ("ftp://127.0.0.1:8000", "127.0.0.1:8000", False),
    ],
)
async def test_socket_origin_must_be_the_host(
    origin: str | None, host: str, let_in: bool
) -> None:
    reply = await first_reply(OwnOrigin(greeter), headers=build_headers(origin, host))
    assert reply["type"] == ("websocket.accept" if let_in else "websocket.close")


@pytest.mark.parametrize(
    ("origin", "let_in"),
    [
        ("https://memory.example.org", True),
        ("https://memory.example.org:443", True),
        ("https://memory.example.org:8443", False),
        ("http://memory.example.org", False),
        ("https://sub.memory.example.org", False),
    ],
)
async def test_configured_origin_is_exact(
    settings: Settings, origin: str, let_in: bool
) -> None:
    settings.ORIGINS = ["https://memory.example.org"]
    reply = await first_reply(OwnOrigin(greeter), headers=build_headers(origin))
    assert reply["type"] == ("websocket.accept" if let_in else "websocket.close")


async def test_scheme_is_https_behind_tls() -> None:
    given = build_headers("https://127.0.0.1:8000")
    reply = await first_reply(OwnOrigin(greeter), headers=given, scheme="wss")
    assert reply["type"] == "websocket.accept"


def test_host_with_an_underscore_is_served_alike(settings: Settings) -> None:
    """API, pages and sockets ask the same function; Django's refuses the name."""
    settings.ALLOWED_HOSTS = ["my_hub", "localhost"]
    scope = {"type": "http", "method": "GET", "path": "/"}
    for host in ("my_hub:8000", "My_Hub", "localhost"):
        asked = {**scope, "headers": build_headers(None, host)}
        assert PageRequest(asked, BytesIO()).get_host() == host
        assert gate.is_own_host(host.encode())
    foreign = {**scope, "headers": build_headers(None, "their_hub")}
    with pytest.raises(DisallowedHost):
        PageRequest(foreign, BytesIO()).get_host()


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", OURS])
@pytest.mark.parametrize("path", ["/ws/v1/agent", "/ws/v1/nothing"])
async def test_agents_socket_may_have_any_origin(path: str, origin: str | None) -> None:
    reply = await first_reply(
        SocketRouter(browsers=greeter), path, headers=build_headers(origin)
    )
    assert reply["type"] == "websocket.accept"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/ws/nothing", "/", "/ws/v1/nothing", "/api/v1/x"])
async def test_unknown_path_is_4404(path: str) -> None:
    whole = {
        "type": "websocket",
        "path": path,
        "headers": build_headers(OURS),
        "scheme": "ws",
        "query_string": b"",
    }
    line = line_to(application, whole)
    await line.send_input({"type": "websocket.connect"})
    assert (await line.receive_output(timeout=10))["type"] == "websocket.accept"
    closed = await line.receive_output(timeout=10)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)
    await line.wait(timeout=10)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/ws/live/acme", "/ws/v1/agent", "/ws/v1/"])
def test_request_finds_no_page_where_sockets_are(path: str) -> None:
    assert Client().get(path).status_code == 404


async def long_way(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/api", True),
        ("/api/v1/threads", True),
        ("/apis", False),
        ("/", False),
        ("/p/acme/api/", False),
    ],
)
async def test_short_way_is_taken_only_by_paths_under_api(path: str, api: bool) -> None:
    # Without a Host the API refuses; Django was not asked.
    assert await status_of(path) == (400 if api else 299)


@pytest.mark.parametrize("path", ["/p/acme/threads", "/api/v1/threads", "/health/live"])
@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        (b"a=" + b"x" * 70_000, [], 414),
        (b"", [(b"x-long", b"x" * 100_000)], 431),
        (b"", [(b"x-many", b"x")] * 1_000, 431),
    ],
)
async def test_request_that_is_too_long_is_refused_everywhere(
    path: str, query: bytes, headers: list[Any], status: int
) -> None:
    assert await status_of(path, query_string=query, headers=headers) == status


async def status_of(path: str, **given: Any) -> int:
    """Return the status of a GET; 299 when it went the long way."""
    scope = {"type": "http", "path": path, "raw_path": path.encode(), "method": "GET"}
    whole = {**scope, "headers": [], "query_string": b"", **given}
    line = line_to(Http(long_way), whole)
    await line.send_input({"type": "http.request", "body": b""})
    reply = await line.receive_output(timeout=20)
    await line.receive_output(timeout=20)
    await line.wait(timeout=20)
    return int(reply["status"])


@pytest.fixture
def stopped() -> Iterator[None]:
    yield
    if readers.is_running:
        readers.stop()


@pytest.mark.django_db(transaction=True)
async def test_lifespan_starts_and_drains(stopped: None) -> None:
    lifespan = Lifespan()
    line = line_to(lifespan, {"type": "lifespan"})
    await line.send_input({"type": "lifespan.startup"})
    started = await line.receive_output(timeout=30)
    assert started == {"type": "lifespan.startup.complete"}
    assert (writer.is_running, readers.is_running) == (True, True)
    done: list[int] = []
    waiting = [writer.put_work(partial(done.append, n)) for n in range(50)]
    await line.send_input({"type": "lifespan.shutdown"})
    ended = await line.receive_output(timeout=30)
    assert ended == {"type": "lifespan.shutdown.complete"}
    assert (writer.is_running, readers.is_running) == (False, False)
    await asyncio.gather(*(asyncio.wrap_future(each) for each in waiting))
    assert done == list(range(50))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_page_takes_a_body_up_to_the_cap(settings: Settings, method: str) -> None:
    settings.BODY_BYTES = 1024
    fits, beyond = [b"x" * 512, b"x" * 512], [b"x" * 512, b"x" * 512, b"x"]
    assert await sent_to_a_page(method, *fits) == (200, 1024)
    assert await sent_to_a_page(method, *beyond) == (413, 0)


async def test_body_that_says_it_is_too_long_is_not_read(settings: Settings) -> None:
    settings.BODY_BYTES = 1024
    length = [(b"content-length", b"1025")]
    assert await sent_to_a_page("POST", headers=length) == (413, 0)


async def test_body_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.01)
    assert await sent_to_a_page("POST", b"half", whole=False) == (408, 0)


async def sent_to_a_page(
    method: str, *parts: bytes, headers: Any = (), whole: bool = True
) -> tuple[int, int]:
    """Return the status and how many bytes of the body came through."""

    async def measure(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        size = str(len(message["body"])).encode()
        assert not message["more_body"]
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": size})

    scope = {"type": "http", "path": "/sign-in", "raw_path": b"/sign-in"}
    request = {"method": method, "headers": [*headers], "query_string": b""}
    line = line_to(Http(measure), {**scope, **request})
    for number, part in enumerate(parts, 1):
        more = number < len(parts) or not whole
        message = {"type": "http.request", "body": part, "more_body": more}
        await line.send_input(message)
    if whole:
        await line.send_input({"type": "http.disconnect"})
    start = await line.receive_output(timeout=10)
    rest = await line.receive_output(timeout=10)
    await line.wait(timeout=10)
    return int(start["status"]), int(rest.get("body") or 0)


def test_start_imports_little_and_builds_no_schema_of_a_route() -> None:
    code = """
import sys
import memoryhub.asgi
from memoryhub.api.threads.threads import ThreadOut
print({"numpy", "opentelemetry"} & sys.modules.keys())
print(ThreadOut.__pydantic_complete__)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["set()", "False"]
