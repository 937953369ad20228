"""Tools: what the model may call, and the answer to a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from memoryhub_client.answers import CallOutput, Message
from memoryhub_client.requests import AsOf, Conditions, Match, Request, at, read, write
from memoryhub_client.turns import Mode, Tool


class Form(TypedDict, total=False):
    mode: Mode
    strict: bool


def call_tool(
    thread: str, call: Mapping[str, Any], **conditions: Unpack[Conditions]
) -> Request[Message | CallOutput]:
    """Do what a model's call asks for; the answer is to be handed back as it is.

    It is the message that answers, but for a call of Responses, whose is an item.
    """
    return write("POST", at("threads", thread, "tool-calls"), conditions, body=call)


def list_tools(**query: Unpack[Form]) -> Request:
    return read(at("tools"), query)


def get_own(thread: str, **query: Unpack[AsOf]) -> Request:
    """The agent's own tools."""
    return read(at("threads", thread, "tools"), query)


def set_own(thread: str, items: Sequence[Tool], **conditions: Unpack[Match]) -> Request:
    """All of them from now on, in every request; those left out are gone."""
    path = at("threads", thread, "tools")
    return write("PUT", path, conditions, body={"items": items})
