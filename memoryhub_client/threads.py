"""Threads: address spaces of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    AsOfQuery,
    IdempotencyCondition,
    Listing,
    Order,
    PartQuery,
    Request,
    build_listing,
    build_path,
    read,
    write,
)

Status = Literal["open", "closed", "retired", "erased"]


class ThreadScope(TypedDict, total=False):
    agent_type: str | None
    agent_instance: str | None
    session: str | None


class ThreadSettings(TypedDict, total=False):
    """Settings of a thread; the API's document describes `config`."""

    scope: ThreadScope
    labels: Mapping[str, str | float | bool] | None
    config: Mapping[str, Any]


class Making(ThreadSettings, total=False):
    user_id: str | None


class ThreadChanges(ThreadSettings, total=False):
    if_match: int


class Forking(ThreadSettings, IdempotencyCondition, total=False):
    seq: int | None
    turn: int | None
    checkpoint: int | str | None


class Closing(IdempotencyCondition, total=False):
    reason: Literal["completed", "failed", "cancelled", "archived"]


class ThreadListFilter(PartQuery, total=False):
    status: Status
    agent_type: str
    agent_instance: str
    session: str
    parent: str
    active_after: str
    created_after: str
    sort: Literal["active", "created", "slots"]
    order: Order
    labels: Mapping[str, str | float | bool]


class PersonFilter(ThreadListFilter, total=False):
    user_id: str


def put(thread: str, **fields: Unpack[Making]) -> Request:
    return write("PUT", build_path("threads", thread), fields)


def get(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread), query)


def patch(thread: str, **fields: Unpack[ThreadChanges]) -> Request:
    return write("PATCH", build_path("threads", thread), fields)


def close(thread: str, **fields: Unpack[Closing]) -> Request:
    return write("POST", build_path("threads", f"{thread}:close"), fields)


def reopen(thread: str, **fields: Unpack[IdempotencyCondition]) -> Request:
    return write("POST", build_path("threads", f"{thread}:reopen"), fields)


def fork(thread: str, name: str, **fields: Unpack[Forking]) -> Request:
    """Fork this thread into a new one of that name."""
    return write(
        "POST", build_path("threads", f"{thread}:fork"), {"thread": name, **fields}
    )


def list_all(**query: Unpack[ThreadListFilter]) -> Listing:
    return build_listing(build_path("threads"), query)


def search(**fields: Unpack[PersonFilter]) -> Listing:
    """List threads like `list_all`, with a person's id in the body, not the address."""
    return Listing(method="POST", path=build_path("threads:search"), body=dict(fields))


def stats(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "stats"), query)


def stats_of_project() -> Request:
    return read(build_path("stats"))
