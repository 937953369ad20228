from __future__ import annotations

import re
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import (
    In,
    Out,
    RefusedError,
    Text,
    ThreadName,
    example,
)
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, if_match
from memoryhub.api.http.reading import GONE, find_state
from memoryhub.errors import NoRoomError, ProjectFullError, SeqUnknownError
from memoryhub.kernel.levels import tokens
from memoryhub.kernel.levels.tools import RESERVED
from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.turns.own_tools import MOST, MOST_BYTES
from memoryhub.queries.threads.readers import read
from memoryhub.queries.turns import own_tools
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import working_memory

router = StrictRouter(tags=["tools"])

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


_OWN_TOOL = {
    "name": "find_flight",
    "parameters": {"type": "object", "properties": {"number": {"type": "string"}}},
}


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RefusedError("value", allowed="1 to 64 of A-Z, a-z, 0-9, _ and -")
    if name in RESERVED:
        raise RefusedError("value", allowed="a name that is not one of our own tools")
    return name


class ToolIn(In):
    """A tool of the agent's, as its model is told of it."""

    name: Annotated[str, AfterValidator(_name)]
    description: Text | None = None
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="JSON schema of its arguments.",
    )

    def definition(self) -> dict[str, Any]:
        about = {"description": self.description} if self.description else {}
        function = {"name": self.name, **about, "parameters": self.parameters}
        return {"type": "function", "function": function}


def _tools(items: list[ToolIn]) -> list[ToolIn]:
    if len(items) > MOST:
        raise RefusedError("batch_size")
    names = [item.name for item in items]
    if len({*names}) < len(names):
        raise RefusedError("value", allowed="each name once")
    if len(_written(items)) > MOST_BYTES:
        raise RefusedError("value", allowed=f"at most {MOST_BYTES:,} bytes in all")
    return items


Tools = Annotated[
    list[ToolIn],
    AfterValidator(_tools),
    Field(json_schema_extra={"maxItems": MOST}),
]


class ToolsIn(In):
    """All tools of an agent's; what is left out is gone."""

    model_config = example({"items": [_OWN_TOOL]})

    items: Tools


class OwnToolsOut(Out):
    model_config = example({"items": [_OWN_TOOL], "seq": 17, "tokens": 41})

    items: list[dict[str, Any]]
    seq: int | None = Field(description="Of the event that has them.")
    tokens: int = Field(description="Of every request.")


def command(items: list[ToolIn] | None) -> SetTools | None:
    """Return the command that sets these tools; None leaves those there are."""
    if items is None:
        return None
    definitions = _written(items)
    return SetTools(
        definitions=definitions,
        names=tuple(item.name for item in items),
        tokens=tokens.estimate(definitions.decode()) if items else 0,
    )


def _written(items: list[ToolIn]) -> bytes:
    return strict_json.as_sent([item.definition() for item in items])


@router.route(
    "PUT",
    "/threads/{thread}/tools",
    needs=auth.WRITE,
    out=OwnToolsOut,
    refusals=(*CONDITIONAL, NoRoomError, ProjectFullError),
)
async def put(
    request: HttpRequest, thread: Path[ThreadName], body: ToolsIn
) -> HttpResponse:
    """Set the agent's own tools, which stand behind ours in each request.

    An empty list takes them away. Makes the thread if the name is new.
    """
    sent = command(body.items)
    assert sent is not None
    agent = auth.caller(request)
    receipt = await working_memory.submit(
        agent=agent,
        thread=thread,
        command=sent,
        texts=[sent.definitions],
        if_match=if_match(request),
        born=True,
    )
    return await read(_get, agent, thread, AsOf(), replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/tools",
    needs=auth.READ,
    out=OwnToolsOut,
    refusals=[*GONE, SeqUnknownError],
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """The agent's own tools, now or as of an event."""
    return await read(_get, auth.caller(request), thread, query)


def _get(
    agent: Agent, name: str, query: AsOf, *, replayed: bool = False
) -> HttpResponse:
    thread, state = find_state(agent, name, query)
    found = own_tools.of(thread, state)
    items = [each["function"] for each in found.definitions]
    out = OwnToolsOut(items=items, seq=found.seq, tokens=found.tokens)
    return rendered(out, replayed=replayed)
