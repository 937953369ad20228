"""Blocks of a thread's subject, addressed by the thread."""

from __future__ import annotations

from typing import Unpack

from memoryhub_client.blocks import BlockFields, RenameFields
from memoryhub_client.requests import (
    ActFields,
    AsOfQuery,
    MatchCondition,
    Request,
    build_path,
    read,
    write,
)


def list_all(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "blocks"), query)


def get(thread: str, block: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "blocks", block), query)


def put(thread: str, block: str, text: str, **fields: Unpack[BlockFields]) -> Request:
    path = build_path("threads", thread, "blocks", block)
    return write("PUT", path, {"text": text, **fields})


def append(thread: str, block: str, text: str, **fields: Unpack[ActFields]) -> Request:
    path = build_path("threads", thread, "blocks", block, "append")
    return write("POST", path, {"text": text, **fields})


def replace(
    thread: str, block: str, old: str, new: str, **fields: Unpack[ActFields]
) -> Request:
    path = build_path("threads", thread, "blocks", block, "replace")
    return write("POST", path, {"old": old, "new": new, **fields})


def insert(
    thread: str, block: str, line: int, text: str, **fields: Unpack[ActFields]
) -> Request:
    path = build_path("threads", thread, "blocks", block, "insert")
    return write("POST", path, {"line": line, "text": text, **fields})


def rename(
    thread: str, block: str, name: str, **fields: Unpack[RenameFields]
) -> Request:
    path = build_path("threads", thread, "blocks", block, "rename")
    return write("POST", path, {"name": name, **fields})


def revert(
    thread: str, block: str, version: int, **fields: Unpack[ActFields]
) -> Request:
    path = build_path("threads", thread, "blocks", block, "revert")
    return write("POST", path, {"version": version, **fields})


def delete(thread: str, block: str, **fields: Unpack[MatchCondition]) -> Request:
    return write("DELETE", build_path("threads", thread, "blocks", block), fields)
