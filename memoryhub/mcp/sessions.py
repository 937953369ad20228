"""Sessions of MCP: the API with the key, thread and person of one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from uuid import UUID, uuid4

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
)
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from memoryhub.api.allowed import PATTERNS
from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path
from memoryhub.kernel.text import names

#: Key of the session in the scope of a request.
SCOPE_KEY = "memoryhub.session"
#: Thread to read and write for clients that name neither a thread nor a person, and
#: the beginning of the names of persons' threads. A bound key has names of its own.
OWN_THREAD = "mcp"
#: Label by which the thread of a person is found again.
AGENT_TYPE = "mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSession(ApiCaller):
    """Key, thread and person of one request; the API confines it to the person."""

    #: Subject that the key is bound to, if that is known here.
    bound: UUID | None = None
    #: Thread that the client's header names.
    thread: str | None = None

    async def require_hub(self) -> None:
        """Raise HubRefusedError unless a hub answers and knows the key."""
        try:
            await self.call("GET", "/threads?limit=1")
        except HubRefusedError as refused:
            # A key that may not list threads is known, as is one that asks too often.
            if refused.status not in (403, 429):
                raise

    async def find_thread(self) -> str | None:
        """Return the thread to read and write; None if it was not made yet.

        Raises HubRefusedError for a name that no thread can have.
        """
        if self.thread is not None:
            self._require_thread_name(self.thread)
            return self.thread
        if self.person is None:
            return OWN_THREAD
        wanted = {"user_id": self.person, "agent_type": AGENT_TYPE, "limit": 1}
        body = {**wanted, "sort": "created", "order": "asc"}
        found = await self.call("POST", "/threads:search", body)
        return next((each["thread"] for each in found["items"]), None)

    async def list_places(self) -> list[str]:
        """List the API's paths to all that is remembered of the person, best first."""
        if self.person is not None:
            subject = await self._find_subject(self.person)
            return [build_path("subjects", subject)] if subject else []
        if self.bound is not None:
            return [build_path("subjects", str(self.bound))]
        if self.thread is not None:
            self._require_thread_name(self.thread)
        names = (self.thread, OWN_THREAD)
        return [build_path("threads", name) for name in names if name]

    async def _find_subject(self, person: str) -> str | None:
        try:
            found = await self.call("POST", "/subjects:resolve", {"user_id": person})
        except HubRefusedError as refused:
            if refused.status == 404:
                return None
            raise
        return str(found["id"])

    def _require_thread_name(self, name: str) -> None:
        if not names.is_valid(name):
            rule = PATTERNS[names.NAME_PATTERN]
            says = f"bad thread name in MemoryHub-Thread or --thread: it takes {rule}"
            raise HubRefusedError(422, f"name: {says}.")

    async def ensure_thread(self) -> str:
        """Return the thread, made if need be for the person that the headers name."""
        name = await self.find_thread() or f"{OWN_THREAD}.{uuid4()}"
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


async def read_places(
    ctx: Context[Any, Any],
    method: str,
    places: Sequence[str],
    route: str,
    body: Any = None,
) -> dict[str, Any]:
    """Ask a route of the first place that exists; nothing is there if none does."""
    with explain_refusals():
        for place in places:
            try:
                found: dict[str, Any] = await get_session(ctx).call(
                    method, f"{place}/{route}", body
                )
            except HubRefusedError as refused:
                if refused.status != 404:
                    raise
            else:
                return found
    return {"items": [], "total": 0, "reason": "nothing_remembered"}


async def list_places(ctx: Context[Any, Any]) -> list[str]:
    """List the paths to all that is remembered of the connection's person."""
    with explain_refusals():
        return await get_session(ctx).list_places()


async def has_texts(ctx: Context[Any, Any], places: Sequence[str]) -> bool:
    """Return whether a message or page is remembered at the first place that exists."""
    with explain_refusals():
        for place in places:
            of_person = place.startswith("/subjects/")
            path = place if of_person else f"{place}/pages?limit=1"
            try:
                found = await get_session(ctx).call("GET", path)
            except HubRefusedError as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                count = found["slots"] + found["pages"] if of_person else found["items"]
                return bool(count)
    return False


async def read_api(ctx: Context[Any, Any], path: str) -> Any:
    """Read from the API for a resource: a refusal is an error of the protocol."""
    try:
        return await get_session(ctx).call("GET", path)
    except HubRefusedError as refused:
        if refused.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise MCPError(INVALID_PARAMS, str(refused)) from None
        if refused.status != HTTPStatus.NOT_FOUND:
            raise ResourceError(str(refused)) from None
        raise ResourceNotFoundError(
            f"{refused.code}: nothing is there. The resource memory://threads lists "
            "the threads; `recall` and `search` tell ids of pages, as thread/page."
        ) from None
