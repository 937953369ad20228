"""Checkpoints: states of working memory to go back to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from memoryhub_client.requests import (
    AsOf,
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


class Taking(Conditions, total=False):
    name: str | None
    description: str | None


class Search(PartAsOf, total=False):
    name: str
    auto: bool


class Comparing(PartAsOf, total=False):
    b: int | str
    values: bool


class Restoring(Conditions, total=False):
    parts: Sequence[Literal["keys", "task", "notes", "frames"]]
    dry_run: bool


def take(thread: str, **fields: Unpack[Taking]) -> Request:
    return write("POST", at("threads", thread, "checkpoints"), fields)


def list_all(thread: str, **query: Unpack[Search]) -> Listing:
    return listing(at("threads", thread, "checkpoints"), query)


def get(thread: str, checkpoint: int | str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "checkpoints", checkpoint), query)


def delete(thread: str, checkpoint: int | str, **fields: Unpack[Match]) -> Request:
    return write("DELETE", at("threads", thread, "checkpoints", checkpoint), fields)


def restore(thread: str, checkpoint: int | str, **fields: Unpack[Restoring]) -> Request:
    path = at("threads", thread, "checkpoints", f"{checkpoint}:restore")
    return write("POST", path, fields)


def compare(thread: str, a: int | str, **query: Unpack[Comparing]) -> Listing:
    """`each` gives the keys that differ; the rest is told to `send`."""
    path = at("threads", thread, "checkpoints:compare")
    return listing(path, {"a": a, **query}, items="keys")
