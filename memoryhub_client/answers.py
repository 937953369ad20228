"""Answers: what a loop reads of the hub and of a model, in each of three formats."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Function(TypedDict):
    name: str
    #: JSON, as the model wrote it.
    arguments: str


class ToolCall(TypedDict):
    """Of chat completions."""

    id: str
    type: str
    function: Function


class FunctionCall(TypedDict):
    """Of Responses: an item of a message's content."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class ToolUse(TypedDict):
    """Of Anthropic's Messages: a block of a message's content."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


Call = ToolCall | FunctionCall | ToolUse


class Message(TypedDict):
    """Of chat completions or Anthropic; of Responses, its items are the content."""

    role: str
    content: Any
    name: NotRequired[str]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]
    tool_call_id: NotRequired[str]


class CallOutput(TypedDict):
    """Of Responses: the item that answers a call."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str


class ModelRequest(TypedDict, total=False):
    """What is sent to the model, which is named beside it."""

    messages: list[Message]
    #: Of Responses, in the place of messages.
    input: list[dict[str, Any]]
    #: Of Anthropic's Messages, beside them.
    system: str
    tools: list[dict[str, Any]]


class Cut(TypedDict):
    """A text of which the request shows only a part."""

    page_id: str
    tokens: int
    shown_tokens: int


class Turn(TypedDict):
    """What `turns.begin` answers."""

    thread: str
    thread_id: str
    turn: int
    seq: int
    request: ModelRequest
    sha256: str
    tokens: int
    tokenizer: str
    included: list[str]
    cut: list[Cut]
    omitted: list[str]
    recall_asked: int | None
    recall_given: int
    over_budget: bool


class Appended(TypedDict):
    """What `slots.append` answers."""

    thread: str
    thread_id: str
    seq: int
    index: int
    turn: int
    at: str
    page_id: str
    mapped: bool
