"""Notes: lines that an agent keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    Listing,
    Order,
    PartAsOf,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    write,
)


class NoteItem(TypedDict):
    text: str


class NoteSearch(PartAsOf, total=False):
    order: Order
    content: Literal["full", "none"]


def add(thread: str, text: str, **conditions: Unpack[WriteConditions]) -> Request:
    return write(
        "POST", build_path("threads", thread, "notes"), {"text": text, **conditions}
    )


def add_batch(
    thread: str, items: Sequence[NoteItem], **conditions: Unpack[WriteConditions]
) -> Request:
    fields = {"items": items, **conditions}
    return write("POST", build_path("threads", thread, "notes:batch"), fields)


def list_all(thread: str, **query: Unpack[NoteSearch]) -> Listing:
    return build_listing(build_path("threads", thread, "notes"), query)


def clear(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return write("POST", build_path("threads", thread, "notes:clear"), conditions)
