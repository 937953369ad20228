"""Answers of the hub and of a model that a loop reads, in each of four formats."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Function(TypedDict):
    name: str
    #: JSON text, as the model wrote it.
    arguments: str


class ChatToolCall(TypedDict):
    """A tool call of chat completions."""

    id: str
    type: str
    function: Function


class FunctionCall(TypedDict):
    """A tool call of Responses: an item of a message's content."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class ToolUseBlock(TypedDict):
    """A tool call of Anthropic's Messages: a block of a message's content."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class FunctionCallPart(TypedDict):
    """A tool call of Gemini: a part of a content, `{"id", "name", "args"}` in it."""

    functionCall: dict[str, Any]
    thoughtSignature: NotRequired[str]


Call = ChatToolCall | FunctionCall | ToolUseBlock | FunctionCallPart


class ModelMessage(TypedDict):
    """A message of chat completions or Anthropic, or a content of Gemini, which has
    `parts`; for Responses, `content` holds the items."""

    role: str
    content: NotRequired[Any]
    #: Parts of Gemini's content, instead of `content`.
    parts: NotRequired[list[dict[str, Any]]]
    name: NotRequired[str]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[list[ChatToolCall] | None]
    tool_call_id: NotRequired[str]


class CallOutput(TypedDict):
    """The answer to a call of Responses: an item."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: str


class ModelRequest(TypedDict, total=False):
    """The request to send to the model, without the model's name."""

    messages: list[ModelMessage]
    #: Items of Responses, instead of messages.
    input: list[dict[str, Any]]
    #: System prompt of Anthropic's Messages.
    system: str
    #: Contents of Gemini, instead of messages, and its system prompt.
    contents: list[ModelMessage]
    systemInstruction: dict[str, Any]
    tools: list[dict[str, Any]]


class CutText(TypedDict):
    """A text of which the request shows only a part."""

    page_id: str
    tokens: int
    shown_tokens: int


class TurnAnswer(TypedDict):
    """The answer of `turns.begin`."""

    thread: str
    thread_id: str
    turn: int
    seq: int
    request: ModelRequest
    sha256: str
    tokens: int
    tokenizer: str
    included: list[str]
    cut: list[CutText]
    omitted: list[str]
    recall_asked: int | None
    recall_given: int
    over_budget: bool
    #: Ids that the messages cite and that name no page.
    unknown_refs: list[str]


class AppendAnswer(TypedDict):
    """The answer of `slots.append`."""

    thread: str
    thread_id: str
    seq: int
    index: int
    turn: int
    at: str
    page_id: str
    mapped: bool
    #: Ids that the message cites and that name no page.
    unknown_refs: list[str]


class StruckSlot(TypedDict):
    index: int
    seq: int


class StrikeAnswer(TypedDict):
    """The answer of `slots.strike`: the slots that were not struck before."""

    items: list[StruckSlot]
