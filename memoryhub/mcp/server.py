"""Servers of the protocol, one for each path of the endpoint, on the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from django.conf import settings
from httpx2 import AsyncClient
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    Resource,
)
from pydantic import ValidationError

from memoryhub import __version__
from memoryhub.api.allowed import BY_CODE
from memoryhub.api.http.calls import build_http
from memoryhub.api.http.gate import Application, Receive, Scope
from memoryhub.mcp.resources import LISTED, add_resources
from memoryhub.mcp.sessions import SCOPE_KEY, McpSession
from memoryhub.mcp.tools import MOST_SHOWN, add_tools
from memoryhub.services.access.api_keys import Agent

#: Longest wait for an answer of the hub.
STDIO_SECONDS = 30.0
_INSTRUCTIONS = (
    "Long-term memory of a person. Begin with `recall`; `remember` what will matter in "
    "a later conversation, one thing at a time."
)
#: The endpoint has checked host and origin; the SDK knows names of the loopback only.
_HOSTS_CHECKED = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class MemoryServer(MCPServer[Any]):
    """Server whose errors say what a tool takes, in place of the SDK's own words."""

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        context: Context[Any, Any] | None = None,
    ) -> CallToolResult | InputRequiredResult:
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name in schemas:
            require_arguments(schemas[name], arguments)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as refused:
            if name not in schemas:
                says = f"Unknown tool. The tools are {', '.join(schemas)}."
                raise ToolError(says) from None
            cause = refused.__cause__
            if not isinstance(cause, ValidationError):
                raise
            # With the cause, the SDK logs names of arguments alone.
            raise ToolError(describe_arguments(schemas[name], cause)) from cause

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        context: Context[Any, Any] | None = None,
    ) -> GetPromptResult | InputRequiredResult:
        prompts = {
            each.name: each.arguments or [] for each in await self.list_prompts()
        }
        if name not in prompts:
            says = f"Unknown prompt. The prompts are {', '.join(prompts)}."
            raise MCPError(INVALID_PARAMS, says)
        needed = {each.name for each in prompts[name] if each.required}
        sent = set(arguments or {})
        if wrong := (sent - {each.name for each in prompts[name]}) | (needed - sent):
            takes = ", ".join(each.name for each in prompts[name]) or "none"
            says = (
                f"{_quote_names(wrong)}: wrong or missing. The arguments are: {takes}."
            )
            raise MCPError(INVALID_PARAMS, says)
        return await super().get_prompt(name, arguments, context)

    async def list_resources(self) -> list[Resource]:
        return [*LISTED, *await super().list_resources()]


def require_arguments(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    """Raise ToolError for arguments that a tool does not know, and for texts with NUL.

    The SDK drops the first, and the API names the second by their place in its body.
    """
    takes = schema.get("properties", {})
    if unknown := sent.keys() - takes.keys():
        says = f"{_quote_names(unknown)}: the tool takes no such argument."
        raise ToolError(f"{says} The arguments are {', '.join(takes)}.")
    if wrong := {name for name, value in sent.items() if "\0" in str(value)}:
        raise ToolError(f"nul: {_quote_names(wrong)} takes {BY_CODE['nul']}.")


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name[:MOST_SHOWN]}`" for name in sorted(names))


def describe_arguments(schema: dict[str, Any], invalid: ValidationError) -> str:
    """Name each wrong argument of a tool and what it takes, and all arguments."""
    found = [each for each in invalid.errors() if each["loc"]]
    wrong = {str(each["loc"][0]): each["type"] for each in found}
    says = [
        f"`{name}` {'is missing' if kind == 'missing' else 'is wrong'}: it takes "
        f"{describe_schema(schema['properties'].get(name, {}))}."
        for name, kind in wrong.items()
    ]
    return f"{' '.join(says)} The arguments are {', '.join(schema['properties'])}."


def describe_schema(schema: dict[str, Any]) -> str:
    """Say the type and the bounds of an argument."""
    kinds = [each.get("type", "any") for each in schema.get("anyOf", [schema])]
    words = " or ".join(kinds)
    if "minimum" in schema:
        words += f" from {schema['minimum']} to {schema['maximum']}"
    if "minLength" in schema:
        words += f" of at least {schema['minLength']} character"
    return words


def build_server(
    *, all_tools: bool, session: McpSession | None = None
) -> MCPServer[Any]:
    """Return a server with our tools, resources and prompt.

    `session` serves requests that did not come over HTTP.
    """

    @asynccontextmanager
    async def hold_session(_: MCPServer[Any]) -> AsyncIterator[McpSession | None]:
        yield session

    server = MemoryServer(
        "memoryhub",
        title="MemoryHub",
        instructions=_INSTRUCTIONS,
        version=__version__,
        lifespan=hold_session,
    )
    add_tools(server, all_of_them=all_tools)
    add_resources(server)
    return server


class McpServers:
    """The servers by path, running. Sessions are kept in this process."""

    def __init__(self, api: Application, servers: Mapping[str, MCPServer[Any]]) -> None:
        self._servers = servers
        self._http = build_http(api)

    async def run(self, ready: asyncio.Future[None], stopped: asyncio.Event) -> None:
        """Serve until `stopped`, in one task, as the SDK's task groups need."""
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._http)
                for server in self._servers.values():
                    server.streamable_http_app(
                        transport_security=_HOSTS_CHECKED,
                        max_request_body_size=settings.BODY_BYTES,
                    )
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


def run_stdio(
    *, url: str, key: str, all_tools: bool, thread: str | None, person: str | None
) -> None:
    """Serve one client over standard input and output, from a hub at `url`.

    `thread` and `person` are those of McpSession. Ends with the input. Raises
    HubRefusedError at once if no hub answers, or if the hub does not know the key.
    """

    async def serve() -> None:
        async with AsyncClient(base_url=url, timeout=STDIO_SECONDS) as http:
            session = McpSession(
                http=http,
                authorization=f"Bearer {key}",
                thread=thread,
                person=person,
            )
            await session.require_hub()
            server = build_server(all_tools=all_tools, session=session)
            await server.run_stdio_async()

    asyncio.run(serve())
