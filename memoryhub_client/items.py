"""Items: JSON of a subject by namespace and key, for all threads of the subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from memoryhub_client.keys import Lifetime
from memoryhub_client.requests import (
    AbsentCondition,
    AsOfQuery,
    Listing,
    PartAsOf,
    PartQuery,
    Request,
    build_listing,
    build_path,
    read,
    write,
)


class ItemCondition(TypedDict):
    """A comparison of a value's top-level member; `eq` by default."""

    member: str
    value: Any
    op: NotRequired[Literal["eq", "ne", "gt", "gte", "lt", "lte"]]


class NamespaceQuery(PartAsOf, total=False):
    depth: int


def put(
    subject: str,
    namespace: Sequence[str],
    key: str,
    value: Any,
    **fields: Unpack[Lifetime],
) -> Request:
    path = _build_item_path(subject, namespace, key)
    return write("PUT", path, {"value": value, **fields})


def get(
    subject: str, namespace: Sequence[str], key: str, **query: Unpack[AsOfQuery]
) -> Request:
    return read(_build_item_path(subject, namespace, key), query)


def delete(
    subject: str, namespace: Sequence[str], key: str, **fields: Unpack[AbsentCondition]
) -> Request:
    return write("DELETE", _build_item_path(subject, namespace, key), fields)


def list_all(
    subject: str, namespace: Sequence[str] = (), **query: Unpack[PartAsOf]
) -> Listing:
    """List items in and below a namespace; without labels all items."""
    path = build_path("subjects", subject, "items")
    return build_listing(path, {**_build_prefix(namespace), **query})


def search(
    subject: str,
    where: Sequence[ItemCondition],
    namespace: Sequence[str] = (),
    **part: Unpack[PartQuery],
) -> Listing:
    """Search items by members of their values, which stay out of addresses."""
    body = {**_build_prefix(namespace), "where": where, **part}
    path = build_path("subjects", subject, "items:search")
    return Listing(method="POST", path=path, body=body)


def list_namespaces(
    subject: str, namespace: Sequence[str] = (), **query: Unpack[NamespaceQuery]
) -> Listing:
    """List namespaces with items, at most `depth` labels of each."""
    path = build_path("subjects", subject, "namespaces")
    return build_listing(path, {**_build_prefix(namespace), **query})


def _build_item_path(subject: str, namespace: Sequence[str], key: str) -> str:
    return build_path("subjects", subject, "items", _join_labels(namespace), key)


def _build_prefix(namespace: Sequence[str]) -> dict[str, str]:
    return {"namespace": _join_labels(namespace)} if namespace else {}


def _join_labels(namespace: Sequence[str]) -> str:
    """Join the labels. Raises ValueError for a label that would become several."""
    if isinstance(namespace, str) or any(":" in label for label in namespace):
        raise ValueError("a namespace is a list of labels without colons")
    return ":".join(namespace)
