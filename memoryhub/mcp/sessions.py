"""Sessions of MCP: the API with the key, thread and person of one request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
)

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path

#: Key of the session in the scope of a request.
SCOPE_KEY = "memoryhub.session"
#: Beginning of the names of threads that clients write to unless they name one.
THREAD_PREFIX = "mcp"
#: Label by which the thread of a person is found again.
AGENT_TYPE = "mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSession(ApiCaller):
    """Key, thread and person of one request."""

    #: Thread to write to if neither a thread nor a person is named.
    own_thread: str = THREAD_PREFIX
    #: Thread and person that the client's headers name.
    thread: str | None = None
    person: str | None = None

    async def find_thread(self) -> str | None:
        """Return the thread to read and write; None if it was not made yet."""
        if self.thread is not None:
            return self.thread
        if self.person is None:
            return self.own_thread
        wanted = {"user_id": self.person, "agent_type": AGENT_TYPE, "limit": 1}
        body = {**wanted, "sort": "created", "order": "asc"}
        found = await self.call("POST", "/threads:search", body)
        return next((each["thread"] for each in found["items"]), None)

    async def ensure_thread(self) -> str:
        """Return the thread, made if need be for the person that the headers name."""
        name = await self.find_thread() or f"{THREAD_PREFIX}.{uuid4()}"
        person = {"user_id": self.person} if self.person else {}
        # A thread that the client named may exist, and keeps its scope.
        found_by = {} if self.thread else {"scope": {"agent_type": AGENT_TYPE}}
        await self.call("PUT", build_path("threads", name), found_by | person)
        return name


def get_session(ctx: Context[Any, Any]) -> McpSession:
    """Return the session of the request that a tool, resource or prompt answers."""
    request = ctx.request_context.request
    # Over stdio one key serves the whole process.
    session = (
        request.scope[SCOPE_KEY] if request else ctx.request_context.lifespan_context
    )
    assert isinstance(session, McpSession)
    return session


@contextmanager
def explain_refusals() -> Iterator[None]:
    """Turn a refusal of the API into a tool's result, which the model reads."""
    try:
        yield
    except HubRefusedError as refused:
        raise ToolError(str(refused)) from None


async def read_api(ctx: Context[Any, Any], path: str) -> Any:
    """Read from the API for a resource: a refusal is an error of the protocol."""
    try:
        return await get_session(ctx).call("GET", path)
    except HubRefusedError as refused:
        kind = ResourceNotFoundError if refused.status == 404 else ResourceError
        raise kind(str(refused)) from None
