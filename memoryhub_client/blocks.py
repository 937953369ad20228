"""Blocks: texts about a subject that always stand in front of the model."""

from __future__ import annotations

from typing import Unpack

from memoryhub_client.requests import (
    Act,
    AsOf,
    By,
    Match,
    Request,
    at,
    read,
    write,
)


class Block(Match, total=False):
    by: By
    description: str | None
    read_only: bool | None


def list_all(subject: str, **query: Unpack[AsOf]) -> Request:
    return read(at("subjects", subject, "blocks"), query)


def get(subject: str, block: str, **query: Unpack[AsOf]) -> Request:
    return read(at("subjects", subject, "blocks", block), query)


def put(subject: str, block: str, text: str, **fields: Unpack[Block]) -> Request:
    path = at("subjects", subject, "blocks", block)
    return write("PUT", path, {"text": text, **fields})


def append(subject: str, block: str, text: str, **fields: Unpack[Act]) -> Request:
    path = at("subjects", subject, "blocks", block, "append")
    return write("POST", path, {"text": text, **fields})


def replace(
    subject: str, block: str, old: str, new: str, **fields: Unpack[Act]
) -> Request:
    path = at("subjects", subject, "blocks", block, "replace")
    return write("POST", path, {"old": old, "new": new, **fields})


def revert(subject: str, block: str, version: int, **fields: Unpack[Act]) -> Request:
    path = at("subjects", subject, "blocks", block, "revert")
    return write("POST", path, {"version": version, **fields})


def delete(subject: str, block: str, **fields: Unpack[Match]) -> Request:
    return write("DELETE", at("subjects", subject, "blocks", block), fields)
