from __future__ import annotations

from typing import Any, Literal

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.api.document.fields import In, Out, ThreadName, example
from memoryhub.api.document.samples import REQUEST
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.paging.page_conditions import conditions
from memoryhub.kernel.levels import tools
from memoryhub.kernel.state.paging_config import Mode
from memoryhub.services.knowledge import model_tools
from memoryhub.services.paging import page_faults

router = StrictRouter(tags=["tools"])


_CALL = {"name": "page_fault", "arguments": '{"page_id": "fare-rules"}'}


class CallIn(BaseModel):
    """A model's call as it came; what is wrong with it is told to the model."""

    model_config = ConfigDict(extra="allow", strict=True) | example(
        {"id": "call_7", "type": "function", "function": _CALL}
    )

    id: Any = None
    type: Any = "function"
    function: Any = Field(None, description="`{name, arguments}`.")


class ToolMessageOut(Out):
    """The answer to hand back to the model."""

    model_config = example(
        {
            "role": "tool",
            "tool_call_id": "call_7",
            "name": "page_fault",
            "content": "page slot-0 · transcript · full · 12 tokens · 2 faults left\n\n"
            "Is seat 12A free?",
        }
    )

    role: Literal["tool"]
    tool_call_id: str
    name: str
    content: str = Field(description="What was read, or a sentence on why not.")


class ToolsQuery(In):
    mode: Mode = "strict"
    strict: Literal["true", "false"] = "false"


class ToolsOut(Out):
    model_config = example({"tools": REQUEST["tools"], "version": tools.CURRENT})

    tools: list[dict[str, Any]]
    version: str | None


@router.route(
    "POST",
    "/threads/{thread}/tool-calls",
    needs=auth.WRITE,
    out=ToolMessageOut,
    refusals=CONDITIONAL,
)
async def call_tool(
    request: HttpRequest, thread: Path[ThreadName], body: CallIn
) -> HttpResponse:
    """Do what a model's tool call asks for, and answer the message to hand back.

    What the model got wrong is a 200 as well: its content says so to the model.
    """
    agent, sent = auth.caller(request), body.model_dump()
    given = conditions(request, body)
    message = await model_tools.call(
        agent=agent, thread=thread, sent=sent, request=given.request
    )
    if message is None:
        message = await page_faults.call(
            agent=agent, thread=thread, sent=sent, preconditions=given
        )
    return rendered(ToolMessageOut(**message))  # type: ignore[arg-type]  # closed words


@router.route("GET", "/tools", needs=auth.READ, out=ToolsOut)
async def list_tools(request: HttpRequest, query: Query[ToolsQuery]) -> ToolsOut:
    """Definitions of the tools a model is given, as chat completions take them."""
    if query.mode == "passive":
        return ToolsOut(tools=[], version=None)
    form = tools.CURRENT_STRICT if query.strict == "true" else tools.CURRENT
    return ToolsOut(tools=orjson.loads(tools.DEFINITIONS[form]), version=form)
