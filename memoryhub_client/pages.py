"""Pages: units of memory, how they are faulted in, mapped, evicted and pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    Act,
    AsOf,
    By,
    Conditions,
    Listing,
    Match,
    PartAsOf,
    Request,
    at,
    listing,
    read,
    write,
)

Kind = Literal["transcript", "artifact", "summary", "claim", "index", "procedure"]
Modality = Literal["text", "image", "audio", "video", "structured"]
Tier = Literal["L0", "L1", "L2", "L3", "L4"]


class _Text(TypedDict):
    type: Kind
    modality: Modality
    content: Mapping[str, Any]


class _Page(_Text, total=False):
    importance: float | None
    provenance: Sequence[str] | None
    hint: str | None
    meta: Mapping[str, Any]
    tokens: int | None
    map: bool
    by: By


class Page(_Page, total=False):
    page_id: str | None


class Creating(Page, Conditions, total=False):
    """A page, and when to write it."""


class Putting(_Page, Match, total=False):
    """The same, under an id of one's own."""


class Changing(Match, total=False):
    by: By
    content: Mapping[str, Any]
    importance: float | None
    hint: str | None
    tokens: int | None


class Filter(PartAsOf, total=False):
    type: Kind | Literal["block"]
    modality: Modality
    tier: Tier
    pinned: bool


class AtLevel(AsOf, total=False):
    level: int


class Faulting(Act, total=False):
    level: int | None
    offset: int | None
    limit: int | None
    reason: Literal[
        "user_requested_recall", "resolve_reference", "tool_prereq", "speculative"
    ]


class Placing(Act, total=False):
    level: int


class Referring(Act, total=False):
    how: Literal["cited", "read"]


class Prompt(Match, total=False):
    tokens: int | None


def create(thread: str, **fields: Unpack[Creating]) -> Request:
    return write("POST", at("threads", thread, "pages"), fields)


def create_batch(thread: str, items: Sequence[Page], **fields: Unpack[Act]) -> Request:
    return write(
        "POST", at("threads", thread, "pages:batch"), {"items": items, **fields}
    )


def list_all(thread: str, **query: Unpack[Filter]) -> Listing:
    return listing(at("threads", thread, "pages"), query)


def put(thread: str, page_id: str, **fields: Unpack[Putting]) -> Request:
    return write("PUT", at("threads", thread, "pages", page_id), fields)


def get(thread: str, page_id: str, **query: Unpack[AtLevel]) -> Request:
    return read(at("threads", thread, "pages", page_id), query)


def patch(thread: str, page_id: str, **fields: Unpack[Changing]) -> Request:
    return write("PATCH", at("threads", thread, "pages", page_id), fields)


def delete(thread: str, page_id: str, **fields: Unpack[Match]) -> Request:
    return write("DELETE", at("threads", thread, "pages", page_id), fields)


def put_system_prompt(thread: str, text: str, **fields: Unpack[Prompt]) -> Request:
    return write(
        "PUT", at("threads", thread, "system-prompt"), {"text": text, **fields}
    )


def history(thread: str, page_id: str, **query: Unpack[PartAsOf]) -> Listing:
    return listing(at("threads", thread, "pages", page_id, "history"), query)


def fault(thread: str, page_id: str, **fields: Unpack[Faulting]) -> Request:
    return _act(thread, page_id, "fault", fields)


def map_page(thread: str, page_id: str, **fields: Unpack[Placing]) -> Request:
    return _act(thread, page_id, "map", fields)


def evict(thread: str, page_id: str, **fields: Unpack[Act]) -> Request:
    return _act(thread, page_id, "evict", fields)


def pin(thread: str, page_id: str, **fields: Unpack[Act]) -> Request:
    return _act(thread, page_id, "pin", fields)


def unpin(thread: str, page_id: str, **fields: Unpack[Act]) -> Request:
    return _act(thread, page_id, "unpin", fields)


def reference(thread: str, page_id: str, **fields: Unpack[Referring]) -> Request:
    return _act(thread, page_id, "reference", fields)


def _act(thread: str, page_id: str, verb: str, fields: Mapping[str, Any]) -> Request:
    return write("POST", at("threads", thread, "pages", page_id, verb), fields)
