"""The working set: pages in the model's context, the TLB, paging statistics."""

from __future__ import annotations

from typing import Literal, Unpack

from memoryhub_client.pages import Tier
from memoryhub_client.requests import (
    ActFields,
    AsOfQuery,
    Listing,
    PartAsOf,
    Request,
    build_listing,
    build_path,
    read,
    write,
)


class MutationListFilter(PartAsOf, total=False):
    type: Literal["create", "update", "fault_in", "evict", "compress"]
    by: Literal["user", "model", "tool", "system"]
    page_id: str
    turn: int


class Invalidating(ActFields, total=False):
    page_id: str | None
    tier: Tier | None


def get(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "working-set"), query)


def get_tlb(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "tlb"), query)


def get_paging(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "paging"), query)


def get_curves(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "curves"), query)


def get_manifest(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "manifest"), query)


def get_prefetch(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "prefetch"), query)


def clear_prefetch(thread: str, **fields: Unpack[ActFields]) -> Request:
    return write("POST", build_path("threads", thread, "prefetch:clear"), fields)


def mutations(thread: str, **query: Unpack[MutationListFilter]) -> Listing:
    return build_listing(build_path("threads", thread, "mutations"), query)


def flush_tlb(thread: str, **fields: Unpack[ActFields]) -> Request:
    return write("POST", build_path("threads", thread, "tlb:flush"), fields)


def invalidate_tlb(thread: str, **fields: Unpack[Invalidating]) -> Request:
    return write("POST", build_path("threads", thread, "tlb:invalidate"), fields)
