"""Keys: values that an agent stores under names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from memoryhub_client.requests import (
    AbsentCondition,
    AsOfQuery,
    Listing,
    PartAsOf,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    read,
    write,
)


class Lifetime(AbsentCondition, total=False):
    ttl_seconds: int | None
    expires_at: str | None


class KeyChange(TypedDict):
    op: Literal["set", "delete"]
    key: str
    value: NotRequired[Any]
    ttl_seconds: NotRequired[int | None]
    expires_at: NotRequired[str | None]
    if_match: NotRequired[int | None]
    if_none_match: NotRequired[Literal["*"] | None]


class Keeping(TypedDict, total=False):
    name: str | None
    description: str | None


class Changing(WriteConditions, total=False):
    checkpoint: Keeping | None


class KeySearch(PartAsOf, total=False):
    glob: str
    values: bool
    sort: Literal["name", "expiry", "bytes"]


def put(thread: str, key: str, value: Any, **fields: Unpack[Lifetime]) -> Request:
    return write(
        "PUT", build_path("threads", thread, "keys", key), {"value": value, **fields}
    )


def get(thread: str, key: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "keys", key), query)


def retime(thread: str, key: str, **fields: Unpack[Lifetime]) -> Request:
    return write("PATCH", build_path("threads", thread, "keys", key), fields)


def delete(thread: str, key: str, **fields: Unpack[AbsentCondition]) -> Request:
    return write("DELETE", build_path("threads", thread, "keys", key), fields)


def list_all(thread: str, **query: Unpack[KeySearch]) -> Listing:
    return build_listing(build_path("threads", thread, "keys"), query)


def batch(
    thread: str, items: Sequence[KeyChange], **given: Unpack[Changing]
) -> Request:
    """Change keys; a `checkpoint` of the result is taken in the same commit."""
    fields = {"items": items, **given}
    return write("POST", build_path("threads", thread, "keys:batch"), fields)


def clear(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return write("POST", build_path("threads", thread, "keys:clear"), conditions)
