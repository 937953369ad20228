"""Cookie names that contain the port, since browsers keep cookies by host alone.

Without the port, signing in to one of two hubs on a host would sign out of the other.
See decision 60.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.conf import settings

from inspector.web import returns

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_PORT = re.compile(r":(\d{1,5})\Z")


def build_name(name: str, host: str) -> str:
    """Build the name of a cookie in browsers that reach the hub at this host."""
    port = _PORT.search(host)
    return f"{name}_{port[1]}" if port else name


class CookiesByPort:
    """ASGI application that renames cookies by the port of the request's host.

    The port is taken from the address, not from the process: several may serve it.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        # The theme's cookie is no secret: all hubs of a host may share it.
        self.names = (
            settings.SESSION_COOKIE_NAME,
            settings.CSRF_COOKIE_NAME,
            returns.COOKIE,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        shown = {name: build_name(name, host) for name in self.names}

        async def send_renamed(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    _rename_response_cookie(header, shown)
                    for header in message["headers"]
                ]
                message = {**message, "headers": headers}
            await send(message)

        headers = [
            _rename_request_cookies(header, shown) for header in scope["headers"]
        ]
        await self.inner({**scope, "headers": headers}, receive, send_renamed)


Header = tuple[bytes, bytes]


def _rename_request_cookies(header: Header, shown: Mapping[str, str]) -> Header:
    """Rename a request's cookies to Django's names; drop cookies of other ports."""
    if header[0].lower() != b"cookie":
        return header
    ours = {theirs: name for name, theirs in shown.items()}
    taken = list[str]()
    for pair in header[1].decode("latin-1").split(";"):
        name, equals, value = pair.strip().partition("=")
        if name in ours or name not in shown:
            taken.append(f"{ours.get(name, name)}{equals}{value}")
    return header[0], "; ".join(taken).encode("latin-1")


def _rename_response_cookie(header: Header, shown: Mapping[str, str]) -> Header:
    if header[0].lower() != b"set-cookie":
        return header
    name, equals, rest = header[1].decode("latin-1").partition("=")
    return header[0], f"{shown.get(name, name)}{equals}{rest}".encode("latin-1")
