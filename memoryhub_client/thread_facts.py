"""Facts of a thread's subject, addressed by the thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from memoryhub_client.facts import ClaimFields, FactClaim, FactListQuery
from memoryhub_client.requests import (
    Listing,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    write,
)


def add(
    thread: str,
    entity: str,
    predicate: str,
    value: str,
    **fields: Unpack[ClaimFields],
) -> Request:
    plain = {"entity": entity, "predicate": predicate, "value": value, **fields}
    return write("POST", build_path("threads", thread, "facts"), plain)


def add_batch(
    thread: str, items: Sequence[FactClaim], **conditions: Unpack[WriteConditions]
) -> Request:
    path = build_path("threads", thread, "facts:batch")
    return write("POST", path, {"items": items, **conditions})


def list_all(thread: str, **query: Unpack[FactListQuery]) -> Listing:
    return build_listing(build_path("threads", thread, "facts"), query)
