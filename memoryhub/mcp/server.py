"""Servers of the protocol, one for each path of the endpoint, on the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from httpx2 import ASGITransport, AsyncClient
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer

from memoryhub import __version__
from memoryhub.api.http.gate import Application, Receive, Scope
from memoryhub.mcp.resources import add_resources
from memoryhub.mcp.sessions import SCOPE_KEY, McpSession
from memoryhub.mcp.tools import add_tools
from memoryhub.services.access.api_keys import Agent

_INSTRUCTIONS = (
    "Long-term memory of a person. Begin with `recall`; `remember` what will matter in "
    "a later conversation, one thing at a time."
)


def build_server(*, all_tools: bool) -> MCPServer:
    """Return a server with our tools, resources and prompt."""
    server = MCPServer(
        "memoryhub",
        title="MemoryHub",
        instructions=_INSTRUCTIONS,
        version=__version__,
    )
    add_tools(server, all_of_them=all_tools)
    add_resources(server)
    return server


class McpServers:
    """The servers by path, running. Sessions are kept in this process."""

    def __init__(self, api: Application, servers: Mapping[str, MCPServer]) -> None:
        self._servers = servers

        async def _call(scope: Any, receive: Any, send: Any) -> None:
            await api({**scope}, receive, send)

        self._http = AsyncClient(
            transport=ASGITransport(_call), base_url="http://127.0.0.1"
        )

    async def run(self, ready: asyncio.Future[None], stopped: asyncio.Event) -> None:
        """Serve until `stopped`, in one task, as the SDK's task groups need."""
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._http)
                for server in self._servers.values():
                    server.streamable_http_app()
                    await stack.enter_async_context(server.session_manager.run())
                ready.set_result(None)
                await stopped.wait()
        except Exception as failure:
            if ready.done():
                raise
            ready.set_exception(failure)

    async def handle(
        self, scope: Scope, receive: Receive, send: Any, identity: dict[str, Any]
    ) -> None:
        """Answer a request whose scope tells its key by `identity`."""
        manager = self._servers[scope["path"]].session_manager
        await manager.handle_request({**scope, **identity}, receive, send)

    def identify(
        self,
        agent: Agent,
        authorization: str,
        *,
        thread: str | None,
        person: str | None,
    ) -> dict[str, Any]:
        """Build what a request's scope tells of its key, for the SDK and for us."""
        session = McpSession(
            http=self._http,
            authorization=authorization,
            bound=agent.bound,
            thread=thread,
            person=person,
        )
        # By this the SDK keeps a session to the key that began it.
        token = AccessToken(token="", client_id=str(agent.key), scopes=[])
        return {SCOPE_KEY: session, "user": AuthenticatedUser(token)}
