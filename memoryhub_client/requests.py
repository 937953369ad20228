"""Requests as values: the content to send, and whether a repeat is safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict
from urllib.parse import quote
from uuid import uuid4

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Answer = TypeVar("Answer", default=dict[str, Any])
else:
    # Python 3.11 knows no default, and the client has no other package for it.
    from typing import TypeVar

    Answer = TypeVar("Answer")

By = Literal["user", "model", "tool"]
Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[Answer]):
    """One call of one route, generic in the answer's type; a dict by default.

    A repeat is the same call with the same key.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether a second send has no second effect, so that it can follow a lost answer.
    repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Request):
    """A request that is answered in parts, each with the cursor of the next part."""

    items: str = "items"

    def going_on(self, after: str) -> Self:
        """Return the request of the part after this cursor."""
        if self.method == "POST":
            return replace(self, body={**self.body, "after": after})
        return replace(self, query={**self.query, "after": after})


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(Listing):
    """A list that can be followed beyond its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download(Request):
    """A request that is answered by a file."""


class AsOfQuery(TypedDict, total=False):
    """Event, or turn, to read as of; a turn means its last event."""

    at_seq: int
    at_turn: int


class PartQuery(TypedDict, total=False):
    """Cursor and size of a part of a list."""

    after: str
    limit: int


class PartAsOf(AsOfQuery, PartQuery, total=False):
    """Fields of `PartQuery` and `AsOfQuery`."""


class IdempotencyCondition(TypedDict, total=False):
    """An idempotency key of the caller's, instead of a generated one."""

    idempotency_key: str


class MatchCondition(TypedDict, total=False):
    """Condition to write only if the thread, key or block has this seq or version."""

    if_match: int


class WriteConditions(IdempotencyCondition, MatchCondition, total=False):
    """Fields of `IdempotencyCondition` and `MatchCondition`."""


class AbsentCondition(MatchCondition, total=False):
    """Condition to write only if nothing exists yet."""

    if_none_match: Literal["*"]


class ActFields(WriteConditions, total=False):
    """Write conditions and the originator of the write."""

    by: By


def build_path(*steps: str | int) -> str:
    """Build the path of these names. Raises ValueError for a name that changes the
    path."""
    named = [str(step) for step in steps]
    if any(name in ("", ".", "..") for name in named):
        raise ValueError("a name is empty, or dots only")
    return "/" + "/".join(quote(name, safe=":@") for name in named)


def read(path: str, query: Mapping[str, Any] | None = None) -> Request[Any]:
    return Request(method="GET", path=path, query=_build_query(query or {}))


def build_listing(path: str, query: Mapping[str, Any], items: str = "items") -> Listing:
    return Listing(method="GET", path=path, query=_build_query(query), items=items)


def build_feed(path: str, query: Mapping[str, Any]) -> Feed:
    return Feed(method="GET", path=path, query=_build_query(query))


#: Headers by the fields of a write that are sent as headers.
_HEADERS = {
    "idempotency_key": "Idempotency-Key",
    "if_match": "If-Match",
    "if_none_match": "If-None-Match",
}


def write(
    method: str, path: str, fields: Mapping[str, Any], *, body: Any = None
) -> Request[Any]:
    """Build a write; its body is the fields that are no headers, unless `body` is
    given.

    A POST has an Idempotency-Key, which makes the POST repeatable. PUT and DELETE are
    repeatable unless they have a precondition: the first send could make the repeat
    fail.
    """
    headers = _build_headers(fields)
    repeatable = method in ("PUT", "DELETE") and not headers
    if method == "POST":
        headers.setdefault("Idempotency-Key", uuid4().hex)
        repeatable = True
    if body is None and method != "DELETE":
        body = _build_body(fields)
    return Request(
        method=method, path=path, body=body, headers=headers, repeatable=repeatable
    )


def ask(path: str, fields: Mapping[str, Any]) -> Request[Any]:
    """Build a POST that changes nothing and keeps its fields out of the address."""
    return Request(method="POST", path=path, body=dict(fields))


def _build_headers(fields: Mapping[str, Any]) -> dict[str, str]:
    return {_HEADERS[name]: str(fields[name]) for name in fields if name in _HEADERS}


def _build_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in fields if name not in _HEADERS}


def _build_query(given: Mapping[str, Any]) -> dict[str, str]:
    """Build query parameters: `from_` becomes `from`, labels become `label.<name>`."""
    plain = {name.rstrip("_"): value for name, value in given.items()}
    labels = plain.pop("labels", {})
    plain |= {f"label.{name}": value for name, value in labels.items()}
    return {name: _render_value(value) for name, value in plain.items()}


def _render_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
