"""Notes: lines that an agent keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    Conditions,
    Listing,
    Order,
    PartAsOf,
    Request,
    at,
    listing,
    write,
)


class Note(TypedDict):
    text: str


class Search(PartAsOf, total=False):
    order: Order
    content: Literal["full", "none"]


def add(thread: str, text: str, **conditions: Unpack[Conditions]) -> Request:
    return write("POST", at("threads", thread, "notes"), {"text": text, **conditions})


def add_batch(
    thread: str, items: Sequence[Note], **conditions: Unpack[Conditions]
) -> Request:
    fields = {"items": items, **conditions}
    return write("POST", at("threads", thread, "notes:batch"), fields)


def list_all(thread: str, **query: Unpack[Search]) -> Listing:
    return listing(at("threads", thread, "notes"), query)


def clear(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return write("POST", at("threads", thread, "notes:clear"), conditions)
