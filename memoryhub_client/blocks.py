"""Blocks: texts about a subject that are in every request to the model."""

from __future__ import annotations

from typing import Unpack

from memoryhub_client.requests import (
    ActFields,
    AsOfQuery,
    By,
    MatchCondition,
    Request,
    build_path,
    read,
    write,
)


class BlockFields(MatchCondition, total=False):
    by: By
    description: str | None
    read_only: bool | None


class RenameFields(ActFields, total=False):
    description: str | None


def list_all(subject: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("subjects", subject, "blocks"), query)


def get(subject: str, block: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("subjects", subject, "blocks", block), query)


def put(subject: str, block: str, text: str, **fields: Unpack[BlockFields]) -> Request:
    path = build_path("subjects", subject, "blocks", block)
    return write("PUT", path, {"text": text, **fields})


def append(subject: str, block: str, text: str, **fields: Unpack[ActFields]) -> Request:
    path = build_path("subjects", subject, "blocks", block, "append")
    return write("POST", path, {"text": text, **fields})


def replace(
    subject: str, block: str, old: str, new: str, **fields: Unpack[ActFields]
) -> Request:
    path = build_path("subjects", subject, "blocks", block, "replace")
    return write("POST", path, {"old": old, "new": new, **fields})


def insert(
    subject: str, block: str, line: int, text: str, **fields: Unpack[ActFields]
) -> Request:
    path = build_path("subjects", subject, "blocks", block, "insert")
    return write("POST", path, {"line": line, "text": text, **fields})


def rename(
    subject: str, block: str, name: str, **fields: Unpack[RenameFields]
) -> Request:
    path = build_path("subjects", subject, "blocks", block, "rename")
    return write("POST", path, {"name": name, **fields})


def revert(
    subject: str, block: str, version: int, **fields: Unpack[ActFields]
) -> Request:
    path = build_path("subjects", subject, "blocks", block, "revert")
    return write("POST", path, {"version": version, **fields})


def delete(subject: str, block: str, **fields: Unpack[MatchCondition]) -> Request:
    return write("DELETE", build_path("subjects", subject, "blocks", block), fields)
