"""Facts about a subject, with valid time and recorded time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    Listing,
    PartQuery,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    read,
    write,
)

Cardinality = Literal["single", "multi"]
Reason = Literal["wrong", "duplicate", "withdrawn"]


class FactSource(TypedDict):
    thread: str
    seq: int


class ClaimOptions(TypedDict, total=False):
    """Optional fields of an assertion. Times are RFC 3339."""

    confidence: float | None
    valid_from: str | None
    valid_until: str | None
    many: bool
    source: FactSource | None
    origin: Literal["agent", "model", "import"]


class _Triple(TypedDict):
    entity: str
    predicate: str
    value: str


class FactClaim(_Triple, ClaimOptions):
    """A fact of a batch."""


class ClaimFields(ClaimOptions, WriteConditions, total=False):
    """Optional fields and write conditions of an assertion."""


class FactMoment(TypedDict, total=False):
    valid_at: str | None
    known_at: str | None


class FactListQuery(FactMoment, PartQuery, total=False):
    ended: Literal["true", "false"]


class FactSearch(FactMoment, PartQuery, total=False):
    entity: str | None
    predicate: str | None
    ended: bool


class End(WriteConditions, total=False):
    origin: Literal["agent", "model"]


class Retract(WriteConditions, total=False):
    whole: bool


def add(
    subject: str,
    entity: str,
    predicate: str,
    value: str,
    **fields: Unpack[ClaimFields],
) -> Request:
    plain = {"entity": entity, "predicate": predicate, "value": value, **fields}
    return write("POST", build_path("subjects", subject, "facts"), plain)


def add_batch(
    subject: str, items: Sequence[FactClaim], **conditions: Unpack[WriteConditions]
) -> Request:
    path = build_path("subjects", subject, "facts:batch")
    return write("POST", path, {"items": items, **conditions})


def list_all(subject: str, **query: Unpack[FactListQuery]) -> Listing:
    return build_listing(build_path("subjects", subject, "facts"), query)


def search(subject: str, **fields: Unpack[FactSearch]) -> Listing:
    """Search facts by entity and predicate, which stay out of addresses."""
    path = build_path("subjects", subject, "facts:search")
    return Listing(method="POST", path=path, body=dict(fields))


def get(subject: str, fact: int, **query: Unpack[FactMoment]) -> Request:
    return read(build_path("subjects", subject, "facts", fact), query)


def end(subject: str, fact: int, when: str, **fields: Unpack[End]) -> Request:
    path = build_path("subjects", subject, "facts", f"{fact}:end")
    return write("POST", path, {"at": when, **fields})


def retract(
    subject: str, fact: int, reason: Reason, **fields: Unpack[Retract]
) -> Request:
    path = build_path("subjects", subject, "facts", f"{fact}:retract")
    return write("POST", path, {"reason": reason, **fields})


def configure(
    subject: str,
    entity: str,
    predicate: str,
    cardinality: Cardinality | None,
    **conditions: Unpack[WriteConditions],
) -> Request:
    plain = {"entity": entity, "predicate": predicate, "cardinality": cardinality}
    path = build_path("subjects", subject, "facts:configure")
    return write("POST", path, {**plain, **conditions})


def review(subject: str) -> Request:
    return read(build_path("subjects", subject, "facts:review"))
