"""Tools: definitions for the model, and answers to its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from memoryhub_client.answers import CallOutput, ModelMessage
from memoryhub_client.requests import (
    AsOfQuery,
    MatchCondition,
    Request,
    WriteConditions,
    build_path,
    read,
    write,
)
from memoryhub_client.turns import Mode, Tool


class ToolForm(TypedDict, total=False):
    mode: Mode
    strict: bool


def call_tool(
    thread: str, call: Mapping[str, Any], **conditions: Unpack[WriteConditions]
) -> Request[ModelMessage | CallOutput]:
    """Execute a model's call; hand the answer back to the model unchanged.

    The answer is a message; for a call of Responses it is an item.
    """
    return write(
        "POST", build_path("threads", thread, "tool-calls"), conditions, body=call
    )


def list_tools(**query: Unpack[ToolForm]) -> Request:
    return read(build_path("tools"), query)


def get_own(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    """List the agent's own tools."""
    return read(build_path("threads", thread, "tools"), query)


def set_own(
    thread: str, items: Sequence[Tool], **conditions: Unpack[MatchCondition]
) -> Request:
    """Set all own tools, in every request from now on; omitted ones are removed."""
    path = build_path("threads", thread, "tools")
    return write("PUT", path, conditions, body={"items": items})
