"""The server as one ASGI application: requests, sockets, and the process's lifespan."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
# Sets Django up, which whatever is imported below needs.
django.setup(set_prefix=False)

import structlog
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter

from inspector.live.hub import hub
from inspector.live.routing import websocket_application
from inspector.web.cookies import CookiesByPort
from memoryhub.api.errors import IncompleteBodyError, status_of
from memoryhub.api.handler import application as api_application
from memoryhub.api.http import gate
from memoryhub.api.threads import socket
from memoryhub.api.threads.protocol import Close
from memoryhub.errors import Refusal
from memoryhub.journal import writer
from memoryhub.journal.log.announce import doorbell
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

#: The one address that answers whatever else is held back.
LIVE = "/health/live"
_PORTS = {"http": 80, "https": 443}


class Sockets:
    """An agent's has a key; a browser's has our session, whoever's page opened it."""

    def __init__(self, *, browsers: Any) -> None:
        self.browsers = OwnOrigin(browsers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if maintenance.waiting:
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": int(Close.TRY_LATER)})
            return
        ours = scope["path"].startswith(socket.PREFIX)
        await (socket.application if ours else self.browsers)(scope, receive, send)


class OwnOrigin:
    """Lets in only the sockets that our own pages open: scheme, host and port equal."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _own(scope):
            await self.application(scope, receive, send)
            return
        # Before accepting: a foreign page learns no more than that it may not.
        await receive()
        await send({"type": "websocket.close"})


def _own(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    origin = _place(headers.get(b"origin", b"").decode("latin-1"))
    if origin is None:
        return False
    if origin in [_place(configured) for configured in settings.ORIGINS]:
        return True
    host = headers.get(b"host", b"")
    # A host that is not ours is a name somebody else points at us.
    if not gate.own_host(host):
        return False
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    return origin == _place(f"{scheme}://{host.decode()}")


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None for what is not one."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or port is None:
        return None
    return parts.scheme, parts.hostname, port


class Lifespan:
    """Starts what the process runs beside requests, and stops it in reverse order."""

    def __init__(self) -> None:
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
        await hub.start()
        self.reconciler.start()
        self.flushing = asyncio.create_task(uses.keep_flushing())
        log.info("server.started")

    async def stop(self) -> None:
        socket.sockets.stop()
        await hub.stop()
        await asyncio.to_thread(self.reconciler.stop)
        if self.flushing is not None:
            self.flushing.cancel()
        await asyncio.to_thread(uses.settle)
        await asyncio.to_thread(activity.flush)
        # Drains: what was taken in is on disk before the process ends.
        await asyncio.to_thread(writer.stop)
        await asyncio.to_thread(anchors.last)
        doorbell.detach()
        await asyncio.to_thread(readers.stop)
        log.info("server.stopped")


class PageRequest(ASGIRequest):
    """A page's request; its host is judged as an API request's is."""

    def get_host(self) -> str:
        host: str = self._get_raw_host()  # type: ignore[attr-defined]  # Django has it
        return host if gate.own_host(host.encode()) else super().get_host()


class Pages(ASGIHandler):
    request_class = PageRequest


class Http:
    """Requests under `/api` go their own, shorter way; all others go to Django."""

    def __init__(self, django: Any) -> None:
        self.django = django
        self.api: Any = api_application(django)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["path"] == "/api" or scope["path"].startswith("/api/")
        if ours:
            await self.api(scope, receive, send)
        elif maintenance.waiting and scope["path"] != LIVE:
            await _refuse(send, 503, maintenance.refusal_text)
        else:
            await self._page(scope, receive, send)

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """To Django with a body that was read already: its own goes onto the disk.

        Whatever the method, for Django reads what comes with a GET as well.
        """
        try:
            gate.check_size(scope)
            body = await gate.read_body(scope, receive)
        except IncompleteBodyError:
            await _refuse(send, 408)
        except Refusal as refusal:
            await _refuse(send, status_of(refusal))
        else:
            await self.django(scope, gate.replay(body, receive), send)


async def _refuse(send: Send, status: int, text: bytes = b"") -> None:
    """Answer without a page, and hang up: the rest of the request is not read."""
    close = [(b"connection", b"close"), (b"cache-control", b"no-store")]
    length = (b"content-length", str(len(text)).encode())
    plain = [(b"content-type", b"text/plain; charset=utf-8")] if text else []
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [*close, *plain, length]})
    await send({"type": "http.response.body", "body": text})


application = ProtocolTypeRouter(
    {
        "http": Http(CookiesByPort(Pages())),
        "websocket": Sockets(
            browsers=CookiesByPort(AuthMiddlewareStack(websocket_application))
        ),
        "lifespan": Lifespan(),
    }
)
