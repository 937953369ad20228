from __future__ import annotations

import re
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Out,
    Text,
    ThreadName,
    build_example,
)
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import CONDITIONAL, parse_if_match
from memoryhub.api.http.reading import GONE, get_agent_state
from memoryhub.errors import NoRoomError, ProjectFullError, SeqUnknownError
from memoryhub.kernel.context import tokens
from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.tools.tools import RESERVED
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


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise FieldRefusedError("value", allowed="1 to 64 of A-Z, a-z, 0-9, _ and -")
    if name in RESERVED:
        raise FieldRefusedError(
            "value", allowed="a name that is not one of our own tools"
        )
    return name


class ToolIn(In):
    """A tool of the agent, as its model is told of it."""

    name: Annotated[str, AfterValidator(_check_name)]
    description: Text | None = None
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description="JSON schema of its arguments.",
    )

    def to_definition(self) -> dict[str, Any]:
        about = {"description": self.description} if self.description else {}
        function = {"name": self.name, **about, "parameters": self.parameters}
        return {"type": "function", "function": function}


def _check_tools(items: list[ToolIn]) -> list[ToolIn]:
    if len(items) > MOST:
        raise FieldRefusedError("batch_size")
    names = [item.name for item in items]
    if len({*names}) < len(names):
        raise FieldRefusedError("value", allowed="each name once")
    if len(_dump_tools(items)) > MOST_BYTES:
        raise FieldRefusedError("value", allowed=f"at most {MOST_BYTES:,} bytes in all")
    return items


Tools = Annotated[
    list[ToolIn],
    AfterValidator(_check_tools),
    Field(json_schema_extra={"maxItems": MOST}),
]


class ToolsIn(In):
    """All tools of the agent; omitted ones are removed."""

    model_config = build_example({"items": [_OWN_TOOL]})

    items: Tools


class OwnToolsOut(Out):
    model_config = build_example({"items": [_OWN_TOOL], "seq": 17, "tokens": 41})

    items: list[dict[str, Any]]
    seq: int | None = Field(description="Of the event that has them.")
    tokens: int = Field(description="Of every request.")


def build_command(items: list[ToolIn] | None) -> SetTools | None:
    """Build the command that sets these tools; None keeps the present tools."""
    if items is None:
        return None
    definitions = _dump_tools(items)
    return SetTools(
        definitions=definitions,
        names=tuple(item.name for item in items),
        tokens=tokens.estimate_tokens(definitions.decode()) if items else 0,
    )


def _dump_tools(items: list[ToolIn]) -> bytes:
    return strict_json.dump_stored([item.to_definition() for item in items])


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
    """Set the agent's own tools, which follow ours in each request.

    An empty list removes all. Makes the thread if the name is new.
    """
    sent = build_command(body.items)
    assert sent is not None
    agent = auth.get_caller(request)
    receipt = await working_memory.submit_command(
        agent=agent,
        thread=thread,
        command=sent,
        texts=[sent.definitions],
        if_match=parse_if_match(request),
        born=True,
    )
    return await read(_get_tools, agent, thread, AsOf(), replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/tools",
    needs=auth.READ,
    out=OwnToolsOut,
    refusals=[*GONE, SeqUnknownError],
)
def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List the agent's tools, now or as of an event."""
    return _get_tools(auth.get_caller(request), thread, query)


def _get_tools(
    agent: Agent, name: str, query: AsOf, *, replayed: bool = False
) -> HttpResponse:
    thread, state = get_agent_state(agent, name, query)
    found = own_tools.get_own_tools(thread, state)
    items = [each["function"] for each in found.definitions]
    out = OwnToolsOut(items=items, seq=found.seq, tokens=found.tokens)
    return render_answer(out, replayed=replayed)
