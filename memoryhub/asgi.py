"""The server as one ASGI application: requests, sockets, and the process's lifespan."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
# Set Django up first: the imports below need it.
django.setup(set_prefix=False)

import structlog
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter

from inspector.loader import loader
from inspector.web.cookies import CookiesByPort
from memoryhub.api.errors import IncompleteBodyError, get_status
from memoryhub.api.handler import build_application as api_application
from memoryhub.api.http import gate
from memoryhub.api.threads import socket
from memoryhub.api.threads.protocol import CloseCode
from memoryhub.compat.endpoint import CompatEndpoint
from memoryhub.compat.requests import DIALECTS
from memoryhub.errors import Refusal
from memoryhub.journal import writer
from memoryhub.journal.log.announce import doorbell
from memoryhub.mcp import endpoint
from memoryhub.queries.threads.readers import readers
from memoryhub.services.forget import uses
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.workers import anchors
from memoryhub.workers.overview import activity
from memoryhub.workers.reconcile import Reconciler

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

log = structlog.get_logger()

#: The only path that answers while everything else is held back.
LIVE = "/health/live"
#: Paths that Django serves without the inspector.
PROBES = (LIVE, "/health/ready", "/metrics")
_PORTS = {"http": 80, "https": 443}


class SocketRouter:
    """Router of sockets: an agent's has a key, a browser's has our session."""

    def __init__(self, *, browsers: Any) -> None:
        self.browsers = OwnOrigin(browsers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if maintenance.waiting:
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": int(CloseCode.TRY_LATER)})
            return
        ours = scope["path"].startswith(socket.PREFIX)
        await (socket.serve_socket if ours else self.browsers)(scope, receive, send)


class OwnOrigin:
    """Filter that accepts only sockets of our own pages: same scheme, host and port."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _is_own_origin(scope):
            await self.application(scope, receive, send)
            return
        # Before accepting, so that a foreign page learns only that it is refused.
        await receive()
        await send({"type": "websocket.close"})


def _is_own_origin(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    origin = _parse_origin(headers.get(b"origin", b"").decode("latin-1"))
    if origin is None:
        return False
    if origin in [_parse_origin(configured) for configured in settings.ORIGINS]:
        return True
    host = headers.get(b"host", b"")
    # A foreign host name is one that somebody else points at us.
    if not gate.is_own_host(host):
        return False
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    return origin == _parse_origin(f"{scheme}://{host.decode()}")


def _parse_origin(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an origin; None if it is not an origin."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or port is None:
        return None
    return parts.scheme, parts.hostname, port


class Lifespan:
    """Start and stop of the process's work beside requests; stops in reverse order."""

    def __init__(self, *, mcp: endpoint.McpEndpoint | None = None) -> None:
        self.mcp = mcp
        self.reconciler = Reconciler()
        self.flushing: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start(self) -> None:
        readers.start()
        writer.start()
        doorbell.attach(asyncio.get_running_loop())
        loader.start()
        self.reconciler.start()
        self.flushing = asyncio.create_task(uses.keep_flushing())
        if settings.TRACES:
            import_module("memoryhub.services.tracing").start_export()
        log.info("server.started")

    async def stop(self) -> None:
        socket.sockets.stop()
        if self.mcp is not None:
            await self.mcp.stop()
        await loader.stop()
        await asyncio.to_thread(self.reconciler.stop)
        if self.flushing is not None:
            self.flushing.cancel()
        await asyncio.to_thread(uses.flush_last)
        await asyncio.to_thread(activity.flush)
        # The writer drains its queue: accepted writes are on disk before the process
        # ends.
        await asyncio.to_thread(writer.stop)
        await asyncio.to_thread(anchors.anchor_last)
        doorbell.detach()
        await asyncio.to_thread(readers.stop)
        if settings.TRACES:
            tracing = import_module("memoryhub.services.tracing")
            await asyncio.to_thread(tracing.stop_export)
        log.info("server.stopped")


async def serve_browser_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a socket of a page. Expects `session` and `user` in the scope."""
    await loader.load()
    routing = import_module("inspector.live.routing")
    await routing.websocket_application(scope, receive, send)


class PageRequest(ASGIRequest):
    """A page's request, whose host is checked like an API request's."""

    def get_host(self) -> str:
        host: str = self._get_raw_host()  # type: ignore[attr-defined]  # Django has it
        return host if gate.is_own_host(host.encode()) else super().get_host()


class Pages(ASGIHandler):
    request_class = PageRequest


class Http:
    """Router of requests: `/api`, `/mcp` and `/compat` bypass Django, nothing else."""

    def __init__(self, django: Any) -> None:
        self.django = django
        self.api: Any = api_application(django)
        self.mcp = endpoint.McpEndpoint(self.api)
        self._mcp: Any = self.mcp
        self._compat: dict[str, Any] = {
            each.prefix: CompatEndpoint(self.api, each) for each in DIALECTS
        }
        if settings.TRACES:
            trace = import_module("memoryhub.api.http.tracing").trace_endpoint
            self._mcp = trace(self._mcp, lambda scope: scope["path"])
            for prefix, served in self._compat.items():
                route = f"{prefix}{{path}}"
                self._compat[prefix] = trace(served, lambda _, route=route: route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["path"] == "/api" or scope["path"].startswith("/api/")
        if ours:
            await self.api(scope, receive, send)
        elif maintenance.waiting and scope["path"] != LIVE:
            await _send_refusal(send, 503, maintenance.refusal_text)
        elif scope["path"] in endpoint.PATHS:
            await self._mcp(scope, receive, send)
        elif served := self._find_compat(scope["path"]):
            await served(scope, receive, send)
        else:
            await self._serve_page(scope, receive, send)

    def _find_compat(self, path: str) -> Any:
        found = (self._compat[each] for each in self._compat if path.startswith(each))
        return next(found, None)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to Django with its body read, so that no body is put on disk.

        Whatever the method: Django reads the body of a GET as well.
        """
        try:
            gate.check_size(scope)
            body = await gate.read_body(scope, receive)
            if scope["path"] not in PROBES:
                await loader.load()
        except IncompleteBodyError:
            await _send_refusal(send, 408)
        except Refusal as refusal:
            await _send_refusal(send, get_status(refusal))
        else:
            await self.django(scope, gate.replay(body, receive), send)


async def _send_refusal(send: Send, status: int, text: bytes = b"") -> None:
    """Answer without a page, and close: the rest of the request is not read."""
    close = [(b"connection", b"close"), (b"cache-control", b"no-store")]
    length = (b"content-length", str(len(text)).encode())
    plain = [(b"content-type", b"text/plain; charset=utf-8")] if text else []
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [*close, *plain, length]})
    await send({"type": "http.response.body", "body": text})


_http = Http(CookiesByPort(Pages()))
application = ProtocolTypeRouter(
    {
        "http": _http,
        "websocket": SocketRouter(
            browsers=CookiesByPort(AuthMiddlewareStack(serve_browser_socket))
        ),
        "lifespan": Lifespan(mcp=_http.mcp),
    }
)
