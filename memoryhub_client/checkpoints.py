"""Checkpoints: states of working memory to go back to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from memoryhub_client.requests import (
    AsOfQuery,
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


class Taking(WriteConditions, total=False):
    name: str | None
    description: str | None


class CheckpointSearch(PartAsOf, total=False):
    name: str
    auto: bool


class Comparing(PartAsOf, total=False):
    b: int | str
    values: bool


class Restoring(WriteConditions, total=False):
    parts: Sequence[Literal["keys", "task", "notes", "frames"]]
    dry_run: bool


def take(thread: str, **fields: Unpack[Taking]) -> Request:
    return write("POST", build_path("threads", thread, "checkpoints"), fields)


def list_all(thread: str, **query: Unpack[CheckpointSearch]) -> Listing:
    return build_listing(build_path("threads", thread, "checkpoints"), query)


def get(thread: str, checkpoint: int | str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "checkpoints", checkpoint), query)


def delete(
    thread: str, checkpoint: int | str, **fields: Unpack[MatchCondition]
) -> Request:
    return write(
        "DELETE", build_path("threads", thread, "checkpoints", checkpoint), fields
    )


def restore(thread: str, checkpoint: int | str, **fields: Unpack[Restoring]) -> Request:
    path = build_path("threads", thread, "checkpoints", f"{checkpoint}:restore")
    return write("POST", path, fields)


def compare(thread: str, a: int | str, **query: Unpack[Comparing]) -> Listing:
    """Compare two checkpoints: `each` yields the differing keys, `send` answers the
    rest."""
    path = build_path("threads", thread, "checkpoints:compare")
    return build_listing(path, {"a": a, **query}, items="keys")
