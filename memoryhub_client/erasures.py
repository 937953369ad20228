"""Erasures: planned, confirmed, proved by a receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from memoryhub_client.requests import (
    Listing,
    Once,
    Part,
    Request,
    ask,
    at,
    listing,
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


class Planning(Once, total=False):
    ticket: str | None
    thread: str | None
    before: str | None
    record: int | None
    restrict: bool


class Filter(Part, total=False):
    state: str


def plan(
    subject: str, scope: Extent, reason: Reason, **fields: Unpack[Planning]
) -> Request:
    """Nothing is erased yet: the answer counts what would be."""
    stated = {"scope": scope, "reason": reason, **fields}
    return write("POST", at("subjects", subject, "erasures"), stated)


def confirm(
    erasure: str, plan_token: str, count: int, **fields: Unpack[Once]
) -> Request:
    stated = {"plan_token": plan_token, "count": count, **fields}
    return write("POST", at("erasures", f"{erasure}:confirm"), stated)


def cancel(erasure: str, **fields: Unpack[Once]) -> Request:
    return write("POST", at("erasures", f"{erasure}:cancel"), fields)


def list_all(**query: Unpack[Filter]) -> Listing:
    return listing(at("erasures"), query)


def get(erasure: str) -> Request:
    return read(at("erasures", erasure))


def receipt(erasure: str) -> Request:
    return read(at("erasures", erasure, "receipt"))


def addenda(erasure: str) -> Request:
    return read(at("erasures", erasure, "addenda"))


def verify(receipt: Mapping[str, Any]) -> Request:
    return ask(at("receipts:verify"), {"receipt": receipt})


def list_keys() -> Request:
    """The public keys that receipts are verified with."""
    return read(at("receipt-keys"))
