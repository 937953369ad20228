"""Tools for the model of an MCP client: a few that suffice, and the rest on demand.

A memory is a page. Its id for the model is `thread/page`, since recall finds memories
in every thread of the person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from memoryhub.api.http.calls import HubRefusedError, build_path
from memoryhub.mcp.sessions import (
    explain_refusals,
    get_session,
    list_places,
    read_places,
)

Ctx = Context[Any, Any]
MemoryId = Annotated[
    str, Field(description="As `remember`, `recall` and `search` tell it.")
]
Query = Annotated[
    str,
    Field(
        description='Words, `"a phrase"`, and filters: `role:user`, `kind:page`, '
        "`from:2026-03-01`, `to:2026-04-01`."
    ),
]
Limit = Annotated[int, Field(ge=1, le=50, description="Most memories to return.")]

#: Most characters of an unknown id that an error tells again.
MOST_SHOWN = 100
_IDS = "`recall` and `search` tell the ids of memories that exist, as thread/page."

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(destructive_hint=False, open_world_hint=False)
CHANGES = ToolAnnotations(destructive_hint=True, open_world_hint=False)


class WrittenMemory(BaseModel):
    """The memory that was written."""

    id: str


class MemoryHit(BaseModel):
    """A memory that was found."""

    id: str | None = Field(description="For read, update and forget; null for a fact.")
    text: str = Field(description="At most 240 characters around the best match.")
    kind: str = Field(description="message, page, fact, note, …")
    said_by: str | None
    at: datetime
    outdated: str | None = Field(description="What no longer holds of it.")


class MemoryHits(BaseModel):
    """Memories that were found, best first."""

    items: list[MemoryHit]
    total: int
    reason: str | None = Field(description="Why there are none.")


class ActDone(BaseModel):
    """An act that has nothing more to tell."""

    done: Literal[True] = True


class ReadMemory(BaseModel):
    """A memory as it stands."""

    id: str
    text: str
    version_seq: int | None = None


class KnownFact(BaseModel):
    """A fact that holds now."""

    entity: str
    predicate: str
    value: Any
    since: datetime


class KnownFacts(BaseModel):
    """Facts that hold now, newest first."""

    items: list[KnownFact]


async def remember_text(
    text: Annotated[str, Field(min_length=1, description="One thing to remember.")],
    ctx: Ctx,
    hint: Annotated[
        str | None, Field(description="A line that tells later what it is about.")
    ] = None,
) -> WrittenMemory:
    """Remember a text for later conversations: a preference, a decision, a result."""
    thread = await get_thread(ctx)
    page = {
        "type": "claim",
        "modality": "text",
        "content": {"text": text},
        "hint": hint,
        "by": "model",
    }
    made = await call_api(ctx, "POST", build_path("threads", thread, "pages"), page)
    return WrittenMemory(id=f"{thread}/{made['page_id']}")


async def recall_memories(query: Query, ctx: Ctx, limit: Limit = 8) -> MemoryHits:
    """Find what is remembered of this person, in all of their conversations."""
    return await find_memories(ctx, await list_places(ctx), "recall", query, limit)


async def search_memories(query: Query, ctx: Ctx, limit: Limit = 8) -> MemoryHits:
    """Find what was remembered through this connection, and nowhere else."""
    with explain_refusals():
        thread = await get_session(ctx).find_thread()
    places = [build_path("threads", thread)] if thread else []
    return await find_memories(ctx, places, "search", query, limit)


async def update_memory(
    id: MemoryId,  # noqa: A002  # the model's name for it
    text: Annotated[str, Field(min_length=1, description="The whole new text.")],
    ctx: Ctx,
) -> WrittenMemory:
    """Replace the text of a memory; the earlier text stays in its history."""
    change = {"content": {"text": text}, "by": "model"}
    await call_memory(ctx, "PATCH", id, change)
    return WrittenMemory(id=id)


async def forget_memory(id: MemoryId, ctx: Ctx) -> ActDone:  # noqa: A002  # as above
    """Forget one memory: nobody finds or reads it any more.

    For good: its texts are erased, those of earlier versions and of its past as well.
    """
    await call_memory(ctx, "DELETE", id)
    return ActDone()


# On demand


async def read_memory(id: MemoryId, ctx: Ctx) -> ReadMemory:  # noqa: A002  # as above
    """Read a memory whole, where recall showed only a part."""
    found = await call_memory(ctx, "GET", id)
    page = found["page"]
    return ReadMemory(id=id, text=get_text(page), version_seq=page.get("seq"))


async def list_facts(
    ctx: Ctx,
    entity: Annotated[str | None, Field(description="Only of this entity.")] = None,
) -> KnownFacts:
    """List the facts about this person that hold now."""
    query = f"?entity={quote(entity)}" if entity else ""
    found = await read_places(ctx, "GET", await list_places(ctx), f"facts{query}")
    items = [
        KnownFact(
            entity=each["entity"],
            predicate=each["predicate"],
            value=each["value"],
            since=each["valid_from"],
        )
        for each in found["items"]
    ]
    return KnownFacts(items=items)


async def add_fact(
    entity: Annotated[str, Field(description="Whom or what it is about: `user`.")],
    predicate: Annotated[str, Field(description="Such as `lives_in`.")],
    value: Annotated[str, Field(description="Such as `Bergen`.")],
    ctx: Ctx,
) -> ActDone:
    """State a fact; an earlier value of the same property ends now."""
    thread = await get_thread(ctx)
    claim = {"entity": entity, "predicate": predicate, "value": value}
    await call_api(ctx, "POST", build_path("threads", thread, "facts"), claim)
    return ActDone()


async def edit_block(
    block: Annotated[str, Field(description="Name of the block, such as `profile`.")],
    text: Annotated[str, Field(description="The whole new text.")],
    ctx: Ctx,
) -> ActDone:
    """Write a block: a short text about this person that every request carries."""
    thread = await get_thread(ctx)
    path = build_path("threads", thread, "blocks", block)
    await call_api(ctx, "PUT", path, {"text": text})
    return ActDone()


async def add_note(text: str, ctx: Ctx) -> ActDone:
    """Add a line to the scratchpad of this connection."""
    thread = await get_thread(ctx)
    await call_api(ctx, "POST", build_path("threads", thread, "notes"), {"text": text})
    return ActDone()


_FEW: dict[str, tuple[Callable[..., Any], ToolAnnotations]] = {
    "remember": (remember_text, ADDS),
    "recall": (recall_memories, READS),
    "search": (search_memories, READS),
    "update": (update_memory, CHANGES),
    "forget": (forget_memory, CHANGES),
}
_REST: dict[str, tuple[Callable[..., Any], ToolAnnotations]] = {
    "read": (read_memory, READS),
    "facts": (list_facts, READS),
    "fact_add": (add_fact, ADDS),
    "block_edit": (edit_block, CHANGES),
    "note_add": (add_note, ADDS),
}


def add_tools(server: MCPServer, *, all_of_them: bool) -> None:
    """Offer the five tools of memory, and with `all_of_them` the rest."""
    offered = _FEW | _REST if all_of_them else _FEW
    for name, (function, hints) in offered.items():
        server.tool(name=name, annotations=hints)(function)


# Shared


async def call_api(ctx: Ctx, method: str, path: str, body: Any = None) -> Any:
    """Call the API with the key of the request. Raises ToolError with its words."""
    with explain_refusals():
        return await get_session(ctx).call(method, path, body)


async def get_thread(ctx: Ctx) -> str:
    """Return the thread that this connection writes to, made if need be."""
    with explain_refusals():
        return await get_session(ctx).ensure_thread()


async def find_memories(
    ctx: Ctx, places: Sequence[str], route: str, query: str, limit: int
) -> MemoryHits:
    """Ask a search route, and turn its hits into memories."""
    body = {"query": query, "limit": limit}
    found = await read_places(ctx, "POST", places, route, body)
    items = [
        MemoryHit(
            id=f"{each['thread']}/{each['page']}" if each["page"] else None,
            text=each["excerpt"],
            kind=each["kind"],
            said_by=each["role"],
            at=each["at"],
            outdated=each["marks"],
        )
        for each in found["items"]
    ]
    return MemoryHits(items=items, total=found["total"], reason=found["reason"])


async def call_memory(ctx: Ctx, method: str, memory: str, body: Any = None) -> Any:
    """Call the API about one memory.

    Raises ToolError that tells the model which tools know ids.
    """
    thread, _, page = memory.partition("/")
    shown = repr(memory[:MOST_SHOWN])
    if not (thread and page):
        raise ToolError(f"id: {shown} is no id of a memory. {_IDS}")
    with explain_refusals():
        try:
            path = build_path("threads", thread, "pages", page)
            return await get_session(ctx).call(method, path, body)
        except HubRefusedError as refused:
            match refused.status:
                case HTTPStatus.NOT_FOUND:
                    words = f"no memory has the id {shown}"
                case HTTPStatus.GONE:
                    words = f"the memory {shown} was forgotten or erased"
                case _:
                    raise
            raise ToolError(f"{refused.code}: {words}. {_IDS}") from None


def get_text(page: dict[str, Any]) -> str:
    """Return the text of a page; of a message its words."""
    content = page.get("content")
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return str(content["text"])
    return str(content)
