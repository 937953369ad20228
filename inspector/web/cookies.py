"""Cookies by port, for browsers keep them by host alone.

Else whoever signed in to one hub of two on a host would be signed out of the other.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.conf import settings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_PORT = re.compile(r":(\d{1,5})\Z")


def name_at(name: str, host: str) -> str:
    """Return what a cookie is called by browsers that see the hub at this host."""
    port = _PORT.search(host)
    return f"{name}_{port[1]}" if port else name


class CookiesByPort:
    """Calls cookies by the port of the host that the browser asked, out and in.

    It is the port of the address, not that of the process: several may serve it.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        # The theme is no secret: one for all hubs will do.
        self.names = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        shown = {name: name_at(name, host) for name in self.names}

        async def named(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [_given(header, shown) for header in message["headers"]]
                message = {**message, "headers": headers}
            await send(message)

        headers = [_taken(header, shown) for header in scope["headers"]]
        await self.inner({**scope, "headers": headers}, receive, named)


Header = tuple[bytes, bytes]


def _taken(header: Header, shown: Mapping[str, str]) -> Header:
    """A browser's cookies: ours as Django calls them, those of other ports left out."""
    if header[0].lower() != b"cookie":
        return header
    ours = {theirs: name for name, theirs in shown.items()}
    taken = list[str]()
    for pair in header[1].decode("latin-1").split(";"):
        name, equals, value = pair.strip().partition("=")
        if name in ours or name not in shown:
            taken.append(f"{ours.get(name, name)}{equals}{value}")
    return header[0], "; ".join(taken).encode("latin-1")


def _given(header: Header, shown: Mapping[str, str]) -> Header:
    if header[0].lower() != b"set-cookie":
        return header
    name, equals, rest = header[1].decode("latin-1").partition("=")
    return header[0], f"{shown.get(name, name)}{equals}{rest}".encode("latin-1")
