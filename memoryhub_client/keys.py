"""Keys: what an agent has written down under a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from memoryhub_client.requests import (
    Absent,
    AsOf,
    Conditions,
    Listing,
    PartAsOf,
    Request,
    at,
    listing,
    read,
    write,
)


class Lifetime(Absent, total=False):
    ttl_seconds: int | None
    expires_at: str | None


class Change(TypedDict):
    op: Literal["set", "delete"]
    key: str
    value: NotRequired[Any]
    ttl_seconds: NotRequired[int | None]
    expires_at: NotRequired[str | None]
    if_match: NotRequired[int | None]
    if_none_match: NotRequired[Literal["*"] | None]


class Search(PartAsOf, total=False):
    glob: str
    values: bool
    sort: Literal["name", "expiry", "bytes"]


def put(thread: str, key: str, value: Any, **fields: Unpack[Lifetime]) -> Request:
    return write("PUT", at("threads", thread, "keys", key), {"value": value, **fields})


def get(thread: str, key: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "keys", key), query)


def retime(thread: str, key: str, **fields: Unpack[Lifetime]) -> Request:
    return write("PATCH", at("threads", thread, "keys", key), fields)


def delete(thread: str, key: str, **fields: Unpack[Absent]) -> Request:
    return write("DELETE", at("threads", thread, "keys", key), fields)


def list_all(thread: str, **query: Unpack[Search]) -> Listing:
    return listing(at("threads", thread, "keys"), query)


def batch(
    thread: str, items: Sequence[Change], **conditions: Unpack[Conditions]
) -> Request:
    fields = {"items": items, **conditions}
    return write("POST", at("threads", thread, "keys:batch"), fields)


def clear(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return write("POST", at("threads", thread, "keys:clear"), conditions)
