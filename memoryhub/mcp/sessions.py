"""Calls of the agents' API on behalf of one MCP request, with the key it came with.

The API checks key, scopes, subject, limits and sizes, as for any client (decision 73).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
)

#: Key of the session in the scope of a request.
SCOPE_KEY = "memoryhub.session"
#: Beginning of the names of threads that clients write to unless they name one.
THREAD_PREFIX = "mcp"
#: Label by which the thread of a person is found again.
AGENT_TYPE = "mcp"


class HubRefusedError(Exception):
    """An error answer of the API: its status, and its words for the model."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSession:
    """Key, thread and person of one request."""

    http: httpx2.AsyncClient
    authorization: str
    #: Thread to write to if neither a thread nor a person is named.
    own_thread: str = THREAD_PREFIX
    #: Thread and person that the client's headers name.
    thread: str | None = None
    person: str | None = None

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's JSON. Raises HubRefusedError. Costs one request."""
        try:
            answer = await self.http.request(
                method,
                f"/api/v1{path}",
                json=body,
                headers={"Authorization": self.authorization},
            )
        except httpx2.HTTPError:
            raise HubRefusedError(503, "the hub does not answer") from None
        if answer.is_success:
            return answer.json() if answer.content else {}
        raise HubRefusedError(answer.status_code, _describe_problem(answer))

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


def build_path(*parts: str) -> str:
    """Join the parts of an API path, each escaped."""
    return "".join(f"/{quote(part, safe=':')}" for part in parts)


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


def _describe_problem(answer: httpx2.Response) -> str:
    """Say in one line what the API refused; its details name fields and limits."""
    problem = answer.json() if answer.content else {}
    words = (problem.get("code"), problem.get("detail"))
    return ": ".join(filter(None, words)) or f"HTTP {answer.status_code}"
