"""Server whose `/mcp` has the conformance suite's fixtures; started by the tests."""

from __future__ import annotations

from typing import Any

from django.core.management import execute_from_command_line
from mcp.server.mcpserver import MCPServer

from memoryhub.mcp import server
from memoryhub.mcp.endpoint import McpEndpoint
from memoryhub.mcp.sessions import McpSession
from tests.mcp.fixtures import add_fixtures


def serve(port: int, key: str) -> None:
    """Serve, and use `key` where a request has none, since the suite sends none."""
    build, answer = server.build_server, McpEndpoint.__call__

    def build_with_fixtures(
        *, all_tools: bool, session: McpSession | None = None
    ) -> MCPServer:
        built = build(all_tools=all_tools, session=session)
        if not all_tools:
            add_fixtures(built)
        return built

    async def answer_with_key(
        endpoint: McpEndpoint, scope: Any, receive: Any, send: Any
    ) -> None:
        headers = [*scope["headers"]]
        if b"authorization" not in dict(headers):
            headers.append((b"authorization", b"Bearer " + key.encode()))
        await answer(endpoint, {**scope, "headers": headers}, receive, send)

    server.build_server = build_with_fixtures
    McpEndpoint.__call__ = answer_with_key  # type: ignore[method-assign, assignment]
    execute_from_command_line(["manage.py", "serve", f"--port={port}"])
