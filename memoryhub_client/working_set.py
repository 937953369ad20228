"""The working set: what the model is shown, the TLB, and how paging goes."""

from __future__ import annotations

from typing import Literal, Unpack

from memoryhub_client.pages import Tier
from memoryhub_client.requests import (
    Act,
    AsOf,
    Listing,
    PartAsOf,
    Request,
    at,
    listing,
    read,
    write,
)


class Filter(PartAsOf, total=False):
    type: Literal["create", "update", "fault_in", "evict", "compress"]
    by: Literal["user", "model", "tool", "system"]
    page_id: str
    turn: int


class Invalidating(Act, total=False):
    page_id: str | None
    tier: Tier | None


def get(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "working-set"), query)


def get_tlb(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "tlb"), query)


def get_paging(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "paging"), query)


def get_manifest(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "manifest"), query)


def get_prefetch(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "prefetch"), query)


def mutations(thread: str, **query: Unpack[Filter]) -> Listing:
    return listing(at("threads", thread, "mutations"), query)


def flush_tlb(thread: str, **fields: Unpack[Act]) -> Request:
    return write("POST", at("threads", thread, "tlb:flush"), fields)


def invalidate_tlb(thread: str, **fields: Unpack[Invalidating]) -> Request:
    return write("POST", at("threads", thread, "tlb:invalidate"), fields)
