"""Slots: a thread's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from memoryhub_client.answers import AppendAnswer, StrikeAnswer
from memoryhub_client.requests import (
    AsOfQuery,
    Listing,
    Order,
    PartAsOf,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    read,
    write,
)


class SlotHandler(TypedDict, total=False):
    own_name: str | None
    is_self_call: bool | None
    usage_instructions: str
    todo_nudge: str


#: A message. Defined by a call, since `from` is a keyword of Python.
Slot = TypedDict(
    "Slot",
    {
        "from": str,
        "to": str,
        "type": str,
        "content": Any,
        "role": NotRequired[Literal["user", "assistant", "tool", "system"] | None],
        "tokens": NotRequired[int | None],
        "agent_at": NotRequired[str | None],
        "handler": NotRequired[SlotHandler | None],
    },
)


class SlotSearch(PartAsOf, total=False):
    start: int
    end: int
    type: str
    from_: str
    to: str
    turn: int
    order: Order
    struck: Literal["true", "false"]
    content: Literal["full", "none"]


class View(AsOfQuery, total=False):
    view: Literal["slot", "handler"]


class NewestMessages(AsOfQuery, total=False):
    limit: int


def chat(message: Mapping[str, Any]) -> Slot:
    """Build the slot of a message with a role; the content is the unchanged message."""
    role = message["role"]
    return {"from": role, "to": "agent", "type": f"chat.{role}", "content": message}


def append(
    thread: str, slot: Slot, **conditions: Unpack[WriteConditions]
) -> Request[AppendAnswer]:
    return write("POST", build_path("threads", thread, "slots"), conditions, body=slot)


def append_batch(
    thread: str, items: Sequence[Slot], **conditions: Unpack[WriteConditions]
) -> Request:
    fields = {"items": items, **conditions}
    return write("POST", build_path("threads", thread, "slots:batch"), fields)


def strike(
    thread: str, indexes: Sequence[int], **conditions: Unpack[WriteConditions]
) -> Request[StrikeAnswer]:
    """Take messages out of requests, lists and searches; the answer names which."""
    fields = {"indexes": [*indexes], **conditions}
    return write("POST", build_path("threads", thread, "slots:strike"), fields)


def list_all(thread: str, **query: Unpack[SlotSearch]) -> Listing:
    return build_listing(build_path("threads", thread, "slots"), query)


def get(thread: str, index: int, **query: Unpack[View]) -> Request:
    return read(build_path("threads", thread, "slots", index), query)


def list_messages(thread: str, **query: Unpack[NewestMessages]) -> Request:
    """List the newest messages of user and assistant, oldest first."""
    return read(build_path("threads", thread, "messages"), query)
