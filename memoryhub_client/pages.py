"""Pages: units of memory, and page faults, maps, evictions and pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    ActFields,
    AsOfQuery,
    By,
    Listing,
    MatchCondition,
    PartAsOf,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    read,
    write,
)

Kind = Literal["transcript", "artifact", "summary", "claim", "index", "procedure"]
Modality = Literal["text", "image", "audio", "video", "structured"]
Tier = Literal["L0", "L1", "L2", "L3", "L4"]


class _RequiredPage(TypedDict):
    type: Kind
    modality: Modality
    content: Mapping[str, Any]


class _PageFields(_RequiredPage, total=False):
    importance: float | None
    provenance: Sequence[str] | None
    hint: str | None
    meta: Mapping[str, Any]
    tokens: int | None
    map: bool
    by: By


class PageItem(_PageFields, total=False):
    page_id: str | None


class Creating(PageItem, WriteConditions, total=False):
    """A page and the conditions of the write."""


class Putting(_PageFields, MatchCondition, total=False):
    """A page under an id of the caller's, and the condition of the write."""


class PageChanges(MatchCondition, total=False):
    by: By
    content: Mapping[str, Any]
    importance: float | None
    hint: str | None
    tokens: int | None


class PageListFilter(PartAsOf, total=False):
    type: Kind | Literal["block"]
    modality: Modality
    tier: Tier
    pinned: bool


class AtLevel(AsOfQuery, total=False):
    level: int


class Faulting(ActFields, total=False):
    level: int | None
    offset: int | None
    limit: int | None
    reason: Literal[
        "user_requested_recall", "resolve_reference", "tool_prereq", "speculative"
    ]


class Placing(ActFields, total=False):
    level: int


class Referring(ActFields, total=False):
    how: Literal["cited", "read"]


class PromptFields(MatchCondition, total=False):
    tokens: int | None


def create(thread: str, **fields: Unpack[Creating]) -> Request:
    return write("POST", build_path("threads", thread, "pages"), fields)


def create_batch(
    thread: str, items: Sequence[PageItem], **fields: Unpack[ActFields]
) -> Request:
    return write(
        "POST", build_path("threads", thread, "pages:batch"), {"items": items, **fields}
    )


def list_all(thread: str, **query: Unpack[PageListFilter]) -> Listing:
    return build_listing(build_path("threads", thread, "pages"), query)


def put(thread: str, page_id: str, **fields: Unpack[Putting]) -> Request:
    return write("PUT", build_path("threads", thread, "pages", page_id), fields)


def get(thread: str, page_id: str, **query: Unpack[AtLevel]) -> Request:
    return read(build_path("threads", thread, "pages", page_id), query)


def patch(thread: str, page_id: str, **fields: Unpack[PageChanges]) -> Request:
    return write("PATCH", build_path("threads", thread, "pages", page_id), fields)


def delete(thread: str, page_id: str, **fields: Unpack[MatchCondition]) -> Request:
    return write("DELETE", build_path("threads", thread, "pages", page_id), fields)


def put_system_prompt(
    thread: str, text: str, **fields: Unpack[PromptFields]
) -> Request:
    return write(
        "PUT", build_path("threads", thread, "system-prompt"), {"text": text, **fields}
    )


def history(thread: str, page_id: str, **query: Unpack[PartAsOf]) -> Listing:
    return build_listing(
        build_path("threads", thread, "pages", page_id, "history"), query
    )


def fault(thread: str, page_id: str, **fields: Unpack[Faulting]) -> Request:
    return _act_on_page(thread, page_id, "fault", fields)


def map_page(thread: str, page_id: str, **fields: Unpack[Placing]) -> Request:
    return _act_on_page(thread, page_id, "map", fields)


def evict(thread: str, page_id: str, **fields: Unpack[ActFields]) -> Request:
    return _act_on_page(thread, page_id, "evict", fields)


def pin(thread: str, page_id: str, **fields: Unpack[ActFields]) -> Request:
    return _act_on_page(thread, page_id, "pin", fields)


def unpin(thread: str, page_id: str, **fields: Unpack[ActFields]) -> Request:
    return _act_on_page(thread, page_id, "unpin", fields)


def reference(thread: str, page_id: str, **fields: Unpack[Referring]) -> Request:
    return _act_on_page(thread, page_id, "reference", fields)


def _act_on_page(
    thread: str, page_id: str, verb: str, fields: Mapping[str, Any]
) -> Request:
    return write("POST", build_path("threads", thread, "pages", page_id, verb), fields)
