from __future__ import annotations

from typing import Any, Literal

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.api.document.fields import In, Out, ThreadName, build_example
from memoryhub.api.document.samples import TOOLS
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter
from memoryhub.api.http.preconditions import CONDITIONAL
from memoryhub.api.paging.page_conditions import parse_conditions
from memoryhub.kernel.state.paging_config import Mode
from memoryhub.kernel.tools import tools
from memoryhub.queries.replay import exact_json
from memoryhub.services.knowledge import model_tools
from memoryhub.services.paging import page_faults

router = StrictRouter(tags=["tools"])


_CALL = {"name": "page_fault", "arguments": '{"page_id": "fare-rules"}'}


class CallIn(BaseModel):
    """A model's call as it came; the model is told its mistakes."""

    model_config = ConfigDict(extra="allow", strict=True) | build_example(
        {"id": "call_7", "type": "function", "function": _CALL}
    )

    id: Any = None
    type: Any = "function"
    function: Any = Field(None, description="`{name, arguments}`.")


class CallItemIn(BaseModel):
    """A call of Responses."""

    model_config = ConfigDict(extra="allow", strict=True) | build_example(
        {"type": "function_call", "id": "fc_7", "call_id": "call_7", **_CALL}
    )

    type: Any = Field(None, description="`function_call`.")
    call_id: Any = None
    name: Any = None
    arguments: Any = Field(None, description="JSON text.")


class CallBlockIn(BaseModel):
    """A call of Anthropic's Messages."""

    model_config = ConfigDict(extra="allow", strict=True) | build_example(
        {
            "type": "tool_use",
            "id": "toolu_7",
            "name": "page_fault",
            "input": {"page_id": "fare-rules"},
        }
    )

    type: Any = Field(None, description="`tool_use`.")
    id: Any = None
    name: Any = None
    input: Any = Field(None, description="The arguments.")


class CallPartIn(BaseModel):
    """A call of Gemini's: a part."""

    model_config = ConfigDict(extra="allow", strict=True) | build_example(
        {"functionCall": {"name": "page_fault", "args": {"page_id": "fare-rules"}}}
    )

    functionCall: dict[str, Any] = Field(  # noqa: N815  # Gemini's name
        description="`{id, name, args}`."
    )


_READ = "page slot-0 · transcript · full · 12 tokens · 2 faults left\n\nIs 12A free?"


class ToolMessageOut(Out):
    """The answer to append to the model's messages, unchanged."""

    model_config = build_example(
        {
            "role": "tool",
            "tool_call_id": "call_7",
            "name": "page_fault",
            "content": _READ,
        }
    )

    role: Literal["tool"]
    tool_call_id: str
    name: str
    content: str = Field(description="What was read, or a sentence on why not.")


class CallOutputOut(Out):
    """Answer to a call of Responses: an item for the next input."""

    model_config = build_example(
        {"type": "function_call_output", "call_id": "call_7", "output": _READ}
    )

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str = Field(description="What was read, or a sentence on why not.")


class ToolResultOut(Out):
    """A block."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: str = Field(description="What was read, or a sentence on why not.")
    is_error: Literal[True] | None = Field(
        None, description="Of a sentence on why not; else absent."
    )


class ToolResultsOut(Out):
    """Answer to a `tool_use` of Anthropic's: a user message with one result."""

    model_config = build_example(
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_7", "content": _READ}
            ],
        }
    )

    role: Literal["user"]
    content: list[ToolResultOut] = Field(description="One result.")


class FunctionResponseOut(Out):
    id: str | None = Field(None, description="The call's id; absent where it has none.")
    name: str
    response: dict[str, str] = Field(
        description="`output` is what was read, `error` a sentence on why not."
    )


class FunctionResponsePartOut(Out):
    """A part."""

    functionResponse: FunctionResponseOut  # noqa: N815  # Gemini's name


class FunctionResponsesOut(Out):
    """Answer to a `functionCall` of Gemini's: a user content with one result."""

    model_config = build_example(
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "page_fault",
                        "response": {"output": _READ},
                    }
                }
            ],
        }
    )

    role: Literal["user"]
    parts: list[FunctionResponsePartOut] = Field(description="One result.")


class ToolsQuery(In):
    mode: Mode = "strict"
    strict: Literal["true", "false"] = "false"
    search: Literal["true", "false"] = "true"


#: Forms of the tools, plain and strict, with and without search.
_FORMS = {
    "true": (tools.CURRENT, tools.CURRENT_STRICT),
    "false": (tools.WITHOUT_SEARCH, tools.WITHOUT_SEARCH_STRICT),
}


class ToolsOut(Out):
    model_config = build_example({"tools": TOOLS, "version": tools.CURRENT})

    tools: list[dict[str, Any]]
    version: str | None


@router.route(
    "POST",
    "/threads/{thread}/tool-calls",
    needs=auth.WRITE,
    out=ToolMessageOut | CallOutputOut | ToolResultsOut | FunctionResponsesOut,
    refusals=CONDITIONAL,
)
async def call_tool(
    request: HttpRequest,
    thread: Path[ThreadName],
    body: CallPartIn | CallIn | CallItemIn | CallBlockIn,
) -> HttpResponse:
    """Execute a model's tool call and answer the message to hand back.

    A call has the shape of chat completions, Responses, Anthropic's Messages or Gemini,
    and so has its answer: a client appends the answer to its messages unchanged. A
    mistake of the model is a 200 as well: the content tells the model.
    """
    agent, sent = auth.get_caller(request), body.model_dump(exclude_unset=True)
    given = parse_conditions(request, body)
    message = await model_tools.answer_call(
        agent=agent, thread=thread, sent=sent, request=given.request
    )
    if message is None:
        message = await page_faults.answer_call(
            agent=agent, thread=thread, sent=sent, preconditions=given
        )
    return HttpResponse(exact_json.dump_json(message), content_type="application/json")


@router.route("GET", "/tools", needs=auth.READ, out=ToolsOut)
async def list_tools(request: HttpRequest, query: Query[ToolsQuery]) -> ToolsOut:
    """List definitions of the model's tools, as chat completions take them."""
    if query.mode == "passive":
        return ToolsOut(tools=[], version=None)
    plain, strict = _FORMS[query.search]
    form = strict if query.strict == "true" else plain
    return ToolsOut(tools=orjson.loads(tools.DEFINITIONS[form]), version=form)
