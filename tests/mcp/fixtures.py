"""Tools, resources and prompts that the conformance suite expects by name.

`serving.py` adds them to the server of `/mcp`; the product has none of them.
"""

from __future__ import annotations

import asyncio
import io
import json
import struct
import wave
import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field, WithJsonSchema

Ctx = Context[Any, Any]
#: Between two notifications, so that a client sees each by itself.
PAUSE_SECONDS = 0.05


# Contents


def build_png() -> bytes:
    """Build a picture of one grey pixel."""
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0),
        b"IDAT": zlib.compress(b"\0\x80"),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + name
        + data
        + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    )


def build_wav() -> bytes:
    """Build a hundred samples of silence."""
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setparams((1, 1, 8000, 0, "NONE", ""))
        sound.writeframes(b"\x80" * 100)
    return made.getvalue()


def build_text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def build_image() -> ImageContent:
    data = b64encode(build_png()).decode()
    return ImageContent(type="image", data=data, mime_type="image/png")


def build_embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=resource)


def answer_text() -> str:
    """Answer with a text."""
    return "A text, and nothing else."


def answer_image() -> ImageContent:
    """Answer with a picture."""
    return build_image()


def answer_audio() -> AudioContent:
    """Answer with a sound."""
    data = b64encode(build_wav()).decode()
    return AudioContent(type="audio", data=data, mime_type="audio/wav")


def answer_embedded() -> EmbeddedResource:
    """Answer with a resource."""
    return build_embedded("test://embedded-resource", "text/plain", "Embedded.")


def answer_mixed() -> list[ContentBlock]:
    """Answer with a text, a picture and a resource."""
    text = build_text("One of each kind.")
    values = build_embedded("test://mixed-content-resource", "application/json", "{}")
    return [text, build_image(), values]


def fail() -> str:
    """Fail in words for the model."""
    raise ToolError("This tool always fails.")


# Notifications


async def log_steps(ctx: Ctx) -> str:
    """Write three lines of a log, one after the other."""
    for step in range(3):
        await ctx.info(f"Step {step}")
        await asyncio.sleep(PAUSE_SECONDS)
    return "Three lines were written."


async def report_steps(ctx: Ctx) -> str:
    """Report progress three times."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100, f"{progress} of 100")
        await asyncio.sleep(PAUSE_SECONDS)
    return "All is done."


async def drop_stream(ctx: Ctx) -> str:
    """Close the stream of the call; the answer waits for the client's return."""
    await ctx.close_sse_stream()
    await asyncio.sleep(4 * PAUSE_SECONDS)
    return "The client came back."


# Questions to the client while a call runs, as until 2025-11-25


class Person(BaseModel):
    username: str = Field(description="Name to sign in with")
    email: str = Field(description="Address for letters")


class Defaults(BaseModel):
    """A value of each primitive type, with the default that the suite looks for."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Annotated[
        str,
        WithJsonSchema({"type": "string", "enum": ["active", "inactive", "pending"]}),
    ] = "active"
    verified: bool = True


def build_titles(*values: str) -> list[dict[str, str]]:
    return [{"const": value, "title": value.title()} for value in values]


class Choices(BaseModel):
    """Five ways to offer choices, as properties that the suite looks for."""

    untitledSingle: Annotated[str, Field(json_schema_extra={"enum": ["a", "b", "c"]})]  # noqa: N815
    titledSingle: Annotated[  # noqa: N815
        str, Field(json_schema_extra={"oneOf": [*build_titles("a", "b", "c")]})
    ]
    legacyEnum: Annotated[  # noqa: N815
        str,
        Field(json_schema_extra={"enum": ["a", "b"], "enumNames": ["One", "Two"]}),
    ]
    untitledMulti: Annotated[  # noqa: N815
        list[str],
        Field(json_schema_extra={"items": {"type": "string", "enum": ["a", "b"]}}),
    ]
    titledMulti: Annotated[  # noqa: N815
        list[str],
        Field(json_schema_extra={"items": {"anyOf": [*build_titles("a", "b")]}}),
    ]


async def ask_model(prompt: str, ctx: Ctx) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=build_text(prompt))
    # Related to the call, or the question waits for a stream that nobody opened.
    answer = await ctx.session.create_message(
        [message], max_tokens=100, related_request_id=ctx.request_id
    )
    return f"The model said: {answer.content}"


async def ask_person(message: str, ctx: Ctx) -> str:
    """Ask the client's user for a name and an address."""
    return str(await ctx.elicit(message, Person))


async def ask_defaults(ctx: Ctx) -> str:
    """Ask the client's user, with a default for each value."""
    return str(await ctx.elicit("Keep or change these values", Defaults))


async def ask_choices(ctx: Ctx) -> str:
    """Ask the client's user to choose."""
    return str(await ctx.elicit("Choose of each", Choices))


# Questions to the client in an answer, since 2026-07-28


def build_question(name: str, kind: str = "string") -> InputRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}}
    params = ElicitRequestFormParams(message=f"Which {name}?", requested_schema=schema)
    return ElicitRequest(params=params)


def build_sampling(prompt: str) -> InputRequest:
    message = SamplingMessage(role="user", content=build_text(prompt))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=50)
    )


def build_asking(*rounds: dict[str, InputRequest], keeps_state: bool = False) -> Any:
    """Return a tool that asks by rounds; its state is the number of the round."""

    async def ask(ctx: Ctx) -> str | InputRequiredResult:
        """Ask the client in the answer, and go on when it calls again."""
        reached = int(ctx.request_state or 0)
        answered = rounds[reached].keys() <= (ctx.input_responses or {}).keys()
        if answered and (not keeps_state or ctx.request_state is not None):
            reached += 1
        if reached == len(rounds):
            return "All questions were answered: state-ok"
        state = str(reached) if keeps_state else None
        return InputRequiredResult(input_requests=rounds[reached], request_state=state)

    return ask


async def ask_able(ctx: Ctx) -> InputRequiredResult:
    """Ask only for what the client says that it can answer."""
    able = ctx.client_capabilities
    requests: dict[str, InputRequest] = {}
    if able is not None and able.sampling is not None:
        requests["sample"] = build_sampling("Say a word")
    if able is not None and able.elicitation is not None:
        requests["ask"] = build_question("word")
    return InputRequiredResult(input_requests=requests, request_state="0")


async def require_sampling(ctx: Ctx) -> str:
    """Refuse a client that has no model to ask."""
    able = ctx.client_capabilities
    if able is None or able.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        code = MISSING_REQUIRED_CLIENT_CAPABILITY
        raise MCPError(code, "The client has no model to ask", needed)
    return "The client has a model to ask."


# Schemas of arguments


#: Keywords that pydantic does not write, and that a list of tools must keep.
WIDE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["name"]},
    "then": {"properties": {"name": {"minLength": 1}}},
    "else": {"required": ["address"]},
    "additionalProperties": False,
}


def repeat_region(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "-",
) -> str:
    """Repeat an argument that a header of the request repeats as well."""
    return region


# Resources and prompts


def read_static_text() -> str:
    """A text that never changes."""
    return "A text that never changes."


def read_static_binary() -> bytes:
    """A picture that never changes."""
    return build_png()


def read_template(id: str) -> str:  # noqa: A002  # the suite's name
    """Values with the id of the address."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Values of {id}"})


def say_simple() -> str:
    """A prompt without arguments."""
    return "A prompt without arguments."


def say_arguments(arg1: str, arg2: str) -> str:
    """A prompt that repeats its two arguments."""
    return f"{arg1} and {arg2}"


def say_embedded(resourceUri: str) -> list[UserMessage]:  # noqa: N803  # the suite's name
    """A prompt with a resource in it."""
    embedded = build_embedded(resourceUri, "text/plain", "Embedded.")
    return [UserMessage(embedded), UserMessage("Read this.")]


def say_image() -> list[UserMessage]:
    """A prompt with a picture in it."""
    return [UserMessage(build_image()), UserMessage("Look at this.")]


async def say_asking(ctx: Ctx) -> str | InputRequiredResult:
    """A prompt that asks for what it says."""
    if "user_context" in (ctx.input_responses or {}):
        return "What the user said."
    return InputRequiredResult(input_requests={"user_context": build_question("word")})


async def accept(ctx: Any, params: Any) -> EmptyResult:
    """Accept a request that changes nothing here."""
    return EmptyResult()


async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Complete an argument by nothing."""
    return Completion(values=[], total=0, has_more=False)


NAME = {"user_name": build_question("name")}
CONFIRM = {"confirm": build_question("ok", "boolean")}
CAPITAL = {"capital_question": build_sampling("Capital of France?")}
ROOTS: dict[str, InputRequest] = {"client_roots": ListRootsRequest()}
TWO_STEPS = ({"step1": build_question("name")}, {"step2": build_question("colour")})

TOOLS: dict[str, Callable[..., Any]] = {
    "test_simple_text": answer_text,
    "test_image_content": answer_image,
    "test_audio_content": answer_audio,
    "test_embedded_resource": answer_embedded,
    "test_multiple_content_types": answer_mixed,
    "test_error_handling": fail,
    "test_tool_with_logging": log_steps,
    "test_logging_tool": log_steps,
    "test_tool_with_progress": report_steps,
    "test_reconnection": drop_stream,
    "test_sampling": ask_model,
    "test_elicitation": ask_person,
    "test_elicitation_sep1034_defaults": ask_defaults,
    "test_elicitation_sep1330_enums": ask_choices,
    "test_streaming_elicitation": build_asking(NAME),
    "test_missing_capability": require_sampling,
    "test_x_mcp_header": repeat_region,
    "json_schema_2020_12_tool": answer_text,
    "test_input_required_result_elicitation": build_asking(NAME),
    "test_input_required_result_sampling": build_asking(CAPITAL),
    "test_input_required_result_list_roots": build_asking(ROOTS),
    "test_input_required_result_request_state": build_asking(CONFIRM, keeps_state=True),
    "test_input_required_result_tampered_state": build_asking(
        CONFIRM, keeps_state=True
    ),
    "test_input_required_result_multiple_inputs": build_asking(
        NAME | CAPITAL | ROOTS, keeps_state=True
    ),
    "test_input_required_result_multi_round": build_asking(
        *TWO_STEPS, keeps_state=True
    ),
    "test_input_required_result_capabilities": ask_able,
}
RESOURCES: dict[str, tuple[Callable[..., Any], str]] = {
    "test://static-text": (read_static_text, "text/plain"),
    "test://static-binary": (read_static_binary, "image/png"),
    "test://watched-resource": (read_static_text, "text/plain"),
    "test://template/{id}/data": (read_template, "application/json"),
}
PROMPTS: dict[str, Callable[..., Any]] = {
    "test_simple_prompt": say_simple,
    "test_prompt_with_arguments": say_arguments,
    "test_prompt_with_embedded_resource": say_embedded,
    "test_prompt_with_image": say_image,
    "test_input_required_result_prompt": say_asking,
}
ACCEPTED: dict[str, Any] = {
    "logging/setLevel": SetLevelRequestParams,
    "resources/subscribe": SubscribeRequestParams,
    "resources/unsubscribe": UnsubscribeRequestParams,
}


def add_fixtures(server: MCPServer) -> None:
    """Offer what the suite expects, beside what the server has."""
    for name, function in TOOLS.items():
        server.tool(name, structured_output=False)(function)
    wide = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert wide is not None
    wide.parameters = WIDE_SCHEMA
    for uri, (function, mime_type) in RESOURCES.items():
        server.resource(uri, mime_type=mime_type)(function)
    for name, function in PROMPTS.items():
        server.prompt(name)(function)
    server.completion()(complete)  # type: ignore[no-untyped-call]
    for method, params in ACCEPTED.items():
        # MCPServer has no way of its own to answer these.
        server._lowlevel_server.add_request_handler(method, params, accept)
    add_changes(server)


def add_changes(server: MCPServer) -> None:
    """Offer tools that change a list and tell the clients that listen."""

    async def change_tools(ctx: Ctx) -> Literal["changed"]:
        """Add a tool and take it away again."""
        server.add_tool(answer_text, name="test_dynamic_tool")
        server.remove_tool("test_dynamic_tool")
        await ctx.notify_tools_changed()
        return "changed"

    async def change_prompts(ctx: Ctx) -> Literal["changed"]:
        """Add a prompt and take it away again."""
        server.add_prompt(Prompt.from_function(say_simple, name="test_dynamic_prompt"))
        server.remove_prompt("test_dynamic_prompt")
        await ctx.notify_prompts_changed()
        return "changed"

    server.tool("test_trigger_tool_change", structured_output=False)(change_tools)
    server.tool("test_trigger_prompt_change", structured_output=False)(change_prompts)
