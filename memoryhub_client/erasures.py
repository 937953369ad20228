"""Erasures: planned, confirmed, proved by a receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from memoryhub_client.requests import (
    IdempotencyCondition,
    Listing,
    PartQuery,
    Request,
    ask,
    build_listing,
    build_path,
    read,
    write,
)

Extent = Literal["subject", "thread", "before", "record"]
Reason = Literal[
    "not_needed",
    "consent_withdrawn",
    "objection",
    "unlawful",
    "legal_duty",
    "child",
    "retention",
    "poisoning",
    "mistake",
    "test",
]


class Planning(IdempotencyCondition, total=False):
    ticket: str | None
    thread: str | None
    before: str | None
    recorded_before: str | None
    record: int | None
    restrict: bool


class ErasureFilter(PartQuery, total=False):
    state: str


def plan(
    subject: str, scope: Extent, reason: Reason, **fields: Unpack[Planning]
) -> Request:
    """Plan an erasure: the answer counts the rows; nothing is erased yet."""
    stated = {"scope": scope, "reason": reason, **fields}
    return write("POST", build_path("subjects", subject, "erasures"), stated)


def confirm(
    erasure: str, plan_token: str, count: int, **fields: Unpack[IdempotencyCondition]
) -> Request:
    stated = {"plan_token": plan_token, "count": count, **fields}
    return write("POST", build_path("erasures", f"{erasure}:confirm"), stated)


def cancel(erasure: str, **fields: Unpack[IdempotencyCondition]) -> Request:
    return write("POST", build_path("erasures", f"{erasure}:cancel"), fields)


def list_all(**query: Unpack[ErasureFilter]) -> Listing:
    return build_listing(build_path("erasures"), query)


def get(erasure: str) -> Request:
    return read(build_path("erasures", erasure))


def receipt(erasure: str) -> Request:
    return read(build_path("erasures", erasure, "receipt"))


def addenda(erasure: str) -> Request:
    return read(build_path("erasures", erasure, "addenda"))


def verify(receipt: Mapping[str, Any]) -> Request:
    return ask(build_path("receipts:verify"), {"receipt": receipt})


def list_keys() -> Request:
    """List the public keys that verify receipts."""
    return read(build_path("receipt-keys"))
