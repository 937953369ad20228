"""ASGI handler of `/api`: Django's, without what an async JSON route does not need.

Django's own handler starts a thread context, a disconnect watcher and several signal
hops for each request, which costs more than the request itself. Leaving these out is
safe: no view runs in a thread of Django's, writes finish whether or not the client
waits, and the writer and the readers look after their own connections.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import Http404, HttpResponse, HttpResponseNotFound
from django.http.response import StreamingHttpResponse
from django.urls import ResolverMatch, URLPattern

from memoryhub.api.application import PREFIX, api
from memoryhub.api.http.gate import BODY, Application, Gate, Receive, Scope, Send
from memoryhub.queries.threads.readers import read

#: HTML pages: Django's middleware gives them static files and the browser policy.
_PAGES = (f"{PREFIX}docs",)

Answered = HttpResponse | StreamingHttpResponse


class LeanRequest(ASGIRequest):
    """A request as our views use it: address, headers and remote address."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method = scope["method"].upper()
        self.path = self.path_info = scope["path"]
        self.script_name = ""
        self.resolver_match = None
        self._encoding = None
        self._stream = BytesIO(scope[BODY])
        self._read_started = self._post_parse_error = False
        self.META = {
            "REQUEST_METHOD": self.method,
            "QUERY_STRING": scope.get("query_string", b"").decode("latin-1"),
            "PATH_INFO": self.path,
            "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        }
        for name, value in scope["headers"]:
            self._note(name.decode("latin-1"), value.decode("latin-1"))

    def _note(self, name: str, value: str) -> None:
        # Like Django, drop names with `_`, which could pass for `-`, and join repeats.
        if "_" not in name:
            key = "HTTP_" + name.upper().replace("-", "_")
            earlier = self.META.get(key)
            self.META[key] = value if earlier is None else f"{earlier},{value}"


class LeanHandler(ASGIHandler):
    """Handler of requests that came through the gate, which has read their bodies."""

    def __init__(self) -> None:
        super().__init__()
        self._routes = [each for each in api.urls[0] if isinstance(each, URLPattern)]
        # Ninja's own views: the document, built once, and a root that answers 404.
        self._documents = {
            each.callback
            for each in self._routes
            if not iscoroutinefunction(each.callback)
        }

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 # Django's
        """Load no middleware: the gate does what the API needs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]  # the gate's own
        response = await self.respond(LeanRequest(scope))
        if isinstance(response, StreamingHttpResponse):
            await self._stream(response, receive, send)
        else:
            headers = [
                (name.encode("latin-1"), value.encode("latin-1"))
                for name, value in response.items()
            ]
            headers.append((b"content-length", b"%d" % len(response.content)))
            start = {"type": "http.response.start", "status": response.status_code}
            await send({**start, "headers": headers})
            await send({"type": "http.response.body", "body": response.content})
        # No `response.close()`: the response holds nothing, and closing would signal
        # listeners for database connections that this loop does not have.

    async def respond(self, request: ASGIRequest) -> Answered:
        match = self._match_route(request.path_info)
        if match is None:
            return HttpResponseNotFound()
        request.resolver_match = match
        if match.func not in self._documents:
            answer: Answered = await match.func(request, **match.kwargs)
            return answer
        try:
            # On a reader thread: the first document takes a second to build.
            document: Answered = await read(
                partial(match.func, request, **match.kwargs)
            )
        except Http404:
            return HttpResponseNotFound()
        return document

    def _match_route(self, address: str) -> ResolverMatch | None:
        """Match an address to its route: Django's patterns in one flat list, not three
        levels."""
        if not address.startswith(PREFIX):
            return None
        rest = address.removeprefix(PREFIX)
        for route in self._routes:
            if found := route.pattern.match(rest):
                return ResolverMatch(
                    route.callback, (), found[2], route=PREFIX[1:] + str(route.pattern)
                )
        return None

    async def _stream(
        self, response: StreamingHttpResponse, receive: Receive, send: Send
    ) -> None:
        """Send until the stream ends or the client disconnects."""
        sending = asyncio.create_task(self.send_response(response, send))  # type: ignore[arg-type]  # as above
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def build_application(django_application: Application) -> Application:
    """Build the ASGI application that serves every path under `/api`.

    `django_application` serves the reference page, and everything if the lean handler
    is switched off; the answers are equal.
    """
    if not settings.LEAN_API:
        return _build_gate(django_application)
    lean = LeanHandler()

    async def serve_scope(scope: Scope, receive: Receive, send: Send) -> None:
        handler: Any = django_application if scope["path"] in _PAGES else lean
        await handler(scope, receive, send)

    return _build_gate(serve_scope)


def _build_gate(application: Application) -> Gate:
    """Build a gate, one that makes spans if an operator wants them."""
    if not settings.TRACES:
        return Gate(application)
    # Loads OpenTelemetry.
    traced: Gate = import_module("memoryhub.api.http.tracing").TracedGate(application)
    return traced
