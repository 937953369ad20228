"""Facts of a thread's subject, which need not be known by its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from memoryhub_client.facts import ClaimFields, Fact, Which
from memoryhub_client.requests import Conditions, Listing, Request, at, listing, write


def add(
    thread: str,
    entity: str,
    predicate: str,
    value: str,
    **fields: Unpack[ClaimFields],
) -> Request:
    plain = {"entity": entity, "predicate": predicate, "value": value, **fields}
    return write("POST", at("threads", thread, "facts"), plain)


def add_batch(
    thread: str, items: Sequence[Fact], **conditions: Unpack[Conditions]
) -> Request:
    path = at("threads", thread, "facts:batch")
    return write("POST", path, {"items": items, **conditions})


def list_all(thread: str, **query: Unpack[Which]) -> Listing:
    return listing(at("threads", thread, "facts"), query)
