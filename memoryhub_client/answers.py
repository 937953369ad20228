"""Answers: what a loop reads of the hub and of a model of chat completions."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Function(TypedDict):
    name: str
    #: JSON, as the model wrote it.
    arguments: str


class ToolCall(TypedDict):
    id: str
    type: str
    function: Function


class Message(TypedDict):
    """Of chat completions."""

    role: str
    content: Any
    name: NotRequired[str]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]
    tool_call_id: NotRequired[str]


class ModelRequest(TypedDict):
    """What is sent to the model, which is named beside it."""

    messages: list[Message]
    tools: NotRequired[list[dict[str, Any]]]


class Turn(TypedDict):
    """What `turns.begin` answers, as far as it leads to the model."""

    thread: str
    turn: int
    request: ModelRequest
