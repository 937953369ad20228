"""Facts: what is known of a subject, since when, and since when we know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    Conditions,
    Listing,
    Part,
    Request,
    at,
    listing,
    read,
    write,
)

Cardinality = Literal["single", "multi"]
Reason = Literal["wrong", "duplicate", "withdrawn"]


class Source(TypedDict):
    thread: str
    seq: int


class Claim(TypedDict, total=False):
    """What else an assertion says. Times are RFC 3339."""

    confidence: float | None
    valid_from: str | None
    valid_until: str | None
    many: bool
    source: Source | None
    origin: Literal["agent", "model", "import"]


class _Triple(TypedDict):
    entity: str
    predicate: str
    value: str


class Fact(_Triple, Claim):
    """One of a batch."""


class ClaimFields(Claim, Conditions, total=False):
    """Both."""


class Moment(TypedDict, total=False):
    valid_at: str | None
    known_at: str | None


class Which(Moment, Part, total=False):
    ended: Literal["true", "false"]


class Search(Moment, Part, total=False):
    entity: str | None
    predicate: str | None
    ended: bool


class End(Conditions, total=False):
    origin: Literal["agent", "model"]


class Retract(Conditions, total=False):
    whole: bool


def add(
    subject: str,
    entity: str,
    predicate: str,
    value: str,
    **fields: Unpack[ClaimFields],
) -> Request:
    plain = {"entity": entity, "predicate": predicate, "value": value, **fields}
    return write("POST", at("subjects", subject, "facts"), plain)


def add_batch(
    subject: str, items: Sequence[Fact], **conditions: Unpack[Conditions]
) -> Request:
    path = at("subjects", subject, "facts:batch")
    return write("POST", path, {"items": items, **conditions})


def list_all(subject: str, **query: Unpack[Which]) -> Listing:
    return listing(at("subjects", subject, "facts"), query)


def search(subject: str, **fields: Unpack[Search]) -> Listing:
    """By entity and predicate, which stand in no address."""
    path = at("subjects", subject, "facts:search")
    return Listing(method="POST", path=path, body=dict(fields))


def get(subject: str, fact: int, **query: Unpack[Moment]) -> Request:
    return read(at("subjects", subject, "facts", fact), query)


def end(subject: str, fact: int, when: str, **fields: Unpack[End]) -> Request:
    path = at("subjects", subject, "facts", f"{fact}:end")
    return write("POST", path, {"at": when, **fields})


def retract(
    subject: str, fact: int, reason: Reason, **fields: Unpack[Retract]
) -> Request:
    path = at("subjects", subject, "facts", f"{fact}:retract")
    return write("POST", path, {"reason": reason, **fields})


def configure(
    subject: str,
    entity: str,
    predicate: str,
    cardinality: Cardinality | None,
    **conditions: Unpack[Conditions],
) -> Request:
    plain = {"entity": entity, "predicate": predicate, "cardinality": cardinality}
    path = at("subjects", subject, "facts:configure")
    return write("POST", path, {**plain, **conditions})


def review(subject: str) -> Request:
    return read(at("subjects", subject, "facts:review"))
