"""ASGI endpoint of the MCP server: `/mcp` with few tools, `/mcp/all` with all of them.

The SDK speaks both eras of the protocol. A session carries no authority: each request
needs a key of its own.
"""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING, Final

from memoryhub.api.errors import IncompleteBodyError, get_status
from memoryhub.api.http import auth, gate
from memoryhub.api.http.gate import Application, Receive, Scope, Send
from memoryhub.errors import Refusal

if TYPE_CHECKING:
    from memoryhub.mcp.server import McpServers

#: Paths of the endpoint, and whether all tools are offered there.
PATHS: Final = {"/mcp": False, "/mcp/all": True}
#: Header of a client's configuration: the thread to write to.
THREAD_HEADER = b"memoryhub-thread"
#: JSON-RPC's code for a request that is refused before its method is looked at.
_INVALID_REQUEST = -32600


class McpEndpoint:
    """Servers of the protocol, made when the first request comes."""

    def __init__(self, api: Application) -> None:
        self._api = api
        self._starting, self._stopped = asyncio.Lock(), asyncio.Event()
        self._servers: McpServers | None = None
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Blanks around a value are none of it, and the HTTP parser leaves those behind.
        stripped = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope, headers = {**scope, "headers": stripped}, dict(stripped)
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        address = (scope.get("client") or ("",))[0]
        try:
            gate.check_size(scope)
            gate.require_own_place(headers)
            key = auth.parse_bearer(authorization)
            agent = await auth.greet(key, address=address)
            person = auth.decode_person(headers.get(auth.PERSON_HEADER_LOWER))
            body = await gate.read_body(scope, receive)
        except IncompleteBodyError as refusal:
            await _refuse(send, refusal)
            return
        except Refusal as refusal:
            await _refuse(send, refusal, receive)
            return
        servers = self._servers or await self._start()
        identity = servers.identify(
            agent,
            authorization,
            thread=headers.get(THREAD_HEADER, b"").decode(errors="replace") or None,
            person=person,
        )
        await servers.handle(scope, gate.replay(body, receive), send, identity)

    async def _start(self) -> McpServers:
        async with self._starting:
            if self._servers is None:
                # The SDK takes a second and 30 MB, which most servers never need.
                load = asyncio.to_thread(import_module, "memoryhub.mcp.server")
                module = await load
                built = {
                    path: module.build_server(all_tools=all_tools)
                    for path, all_tools in PATHS.items()
                }
                servers: McpServers = module.McpServers(self._api, built)
                ready = asyncio.get_running_loop().create_future()
                running = servers.run(ready, self._stopped)
                self._running = asyncio.create_task(running)
                await ready
                self._servers = servers
        return self._servers

    async def stop(self) -> None:
        """End all sessions; open streams end with them."""
        self._stopped.set()
        if self._running is not None:
            await self._running
        # A server may start again in this process, on another event loop.
        self._starting, self._stopped = asyncio.Lock(), asyncio.Event()
        self._servers = self._running = None


async def _refuse(send: Send, refusal: Refusal, unread: Receive | None = None) -> None:
    """Answer in the protocol's own shape, discard the `unread` rest, and close."""
    error = {"code": _INVALID_REQUEST, "message": f"{refusal.code}: {refusal.message}"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    status = get_status(refusal)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    answer = {"type": "http.response.body", "body": body}
    if unread is None:
        await send(answer)
        return
    await send({**answer, "more_body": True})
    await gate.discard_rest(unread)
    await send({"type": "http.response.body"})
