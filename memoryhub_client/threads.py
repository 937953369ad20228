"""Threads: address spaces of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    AsOf,
    Listing,
    Once,
    Order,
    Part,
    Request,
    at,
    listing,
    read,
    write,
)

Status = Literal["open", "closed", "retired", "erased"]


class Scope(TypedDict, total=False):
    agent_type: str | None
    agent_instance: str | None
    session: str | None


class Settings(TypedDict, total=False):
    """`config` is described in the API's document."""

    scope: Scope
    labels: Mapping[str, str | float | bool] | None
    config: Mapping[str, Any]


class Making(Settings, total=False):
    user_id: str | None


class Changing(Settings, total=False):
    if_match: int


class Forking(Settings, Once, total=False):
    seq: int | None
    turn: int | None
    checkpoint: int | str | None


class Closing(Once, total=False):
    reason: Literal["completed", "failed", "cancelled", "archived"]


class Filter(Part, total=False):
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


class PersonFilter(Filter, total=False):
    user_id: str


def put(thread: str, **fields: Unpack[Making]) -> Request:
    return write("PUT", at("threads", thread), fields)


def get(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread), query)


def patch(thread: str, **fields: Unpack[Changing]) -> Request:
    return write("PATCH", at("threads", thread), fields)


def close(thread: str, **fields: Unpack[Closing]) -> Request:
    return write("POST", at("threads", f"{thread}:close"), fields)


def reopen(thread: str, **fields: Unpack[Once]) -> Request:
    return write("POST", at("threads", f"{thread}:reopen"), fields)


def fork(thread: str, name: str, **fields: Unpack[Forking]) -> Request:
    """Make a thread of that name, which goes on from this one."""
    return write("POST", at("threads", f"{thread}:fork"), {"thread": name, **fields})


def list_all(**query: Unpack[Filter]) -> Listing:
    return listing(at("threads"), query)


def search(**fields: Unpack[PersonFilter]) -> Listing:
    """As `list_all`, but no person's id stands in an address."""
    return Listing(method="POST", path=at("threads:search"), body=dict(fields))


def stats(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "stats"), query)


def stats_of_project() -> Request:
    return read(at("stats"))
