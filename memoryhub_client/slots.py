"""Slots: a thread's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from memoryhub_client.answers import Appended
from memoryhub_client.requests import (
    AsOf,
    Conditions,
    Listing,
    Order,
    PartAsOf,
    Request,
    at,
    listing,
    read,
    write,
)


class Handler(TypedDict, total=False):
    own_name: str | None
    is_self_call: bool | None
    usage_instructions: str
    todo_nudge: str


#: A message. By a call, since `from` is a word of Python's.
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
        "handler": NotRequired[Handler | None],
    },
)


class Search(PartAsOf, total=False):
    start: int
    end: int
    type: str
    from_: str
    to: str
    turn: int
    order: Order
    content: Literal["full", "none"]


class View(AsOf, total=False):
    view: Literal["slot", "handler"]


class Newest(AsOf, total=False):
    limit: int


def chat(message: Mapping[str, Any]) -> Slot:
    """The slot of a message that has a role; its content is the message as it is."""
    role = message["role"]
    return {"from": role, "to": "agent", "type": f"chat.{role}", "content": message}


def append(
    thread: str, slot: Slot, **conditions: Unpack[Conditions]
) -> Request[Appended]:
    return write("POST", at("threads", thread, "slots"), conditions, body=slot)


def append_batch(
    thread: str, items: Sequence[Slot], **conditions: Unpack[Conditions]
) -> Request:
    fields = {"items": items, **conditions}
    return write("POST", at("threads", thread, "slots:batch"), fields)


def list_all(thread: str, **query: Unpack[Search]) -> Listing:
    return listing(at("threads", thread, "slots"), query)


def get(thread: str, index: int, **query: Unpack[View]) -> Request:
    return read(at("threads", thread, "slots", index), query)


def list_messages(thread: str, **query: Unpack[Newest]) -> Request:
    """The newest of user and assistant, the oldest of them first."""
    return read(at("threads", thread, "messages"), query)
