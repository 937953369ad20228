"""Requests as values: what is sent, and whether it may be sent again."""

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
    """One call of one route, and its answer's type; a dict, where that is not said.

    Sent again it is the same call, with the same key.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Sent twice it has one effect, so it is sent again when no answer came.
    repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Request):
    """A request that is answered in parts, each naming the next one's cursor."""

    items: str = "items"

    def going_on(self, after: str) -> Self:
        """The same list, after this cursor."""
        if self.method == "POST":
            return replace(self, body={**self.body, "after": after})
        return replace(self, query={**self.query, "after": after})


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(Listing):
    """A list that can be followed beyond its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download(Request):
    """A request that is answered by a file."""


class AsOf(TypedDict, total=False):
    """Read as of an event, or of a turn's last."""

    at_seq: int
    at_turn: int


class Part(TypedDict, total=False):
    """Where a list goes on, and how much of it comes at once."""

    after: str
    limit: int


class PartAsOf(AsOf, Part, total=False):
    """Both."""


class Once(TypedDict, total=False):
    """A key of one's own, in place of the one that is made."""

    idempotency_key: str


class Match(TypedDict, total=False):
    """Write only if the thread, the key or the block still stands there."""

    if_match: int


class Conditions(Once, Match, total=False):
    """Both."""


class Absent(Match, total=False):
    """Write only if there is nothing yet."""

    if_none_match: Literal["*"]


class Act(Conditions, total=False):
    """Who it is done for."""

    by: By


def at(*steps: str | int) -> str:
    """The path of these names. Raises ValueError for one that would change the path."""
    named = [str(step) for step in steps]
    if any(name in ("", ".", "..") for name in named):
        raise ValueError("a name is empty, or dots only")
    return "/" + "/".join(quote(name, safe=":@") for name in named)


def read(path: str, query: Mapping[str, Any] | None = None) -> Request[Any]:
    return Request(method="GET", path=path, query=_query(query or {}))


def listing(path: str, query: Mapping[str, Any], items: str = "items") -> Listing:
    return Listing(method="GET", path=path, query=_query(query), items=items)


def feed(path: str, query: Mapping[str, Any]) -> Feed:
    return Feed(method="GET", path=path, query=_query(query))


#: What stands in headers, of the fields that a write is given.
_HEADERS = {
    "idempotency_key": "Idempotency-Key",
    "if_match": "If-Match",
    "if_none_match": "If-None-Match",
}


def write(
    method: str, path: str, fields: Mapping[str, Any], *, body: Any = None
) -> Request[Any]:
    """A write; its body is the fields that are no headers, unless it is given.

    A POST has an Idempotency-Key, which makes it repeatable. PUT and DELETE are by
    themselves; under a precondition the first could be what refuses the second.
    """
    headers = _headers(fields)
    repeatable = method in ("PUT", "DELETE") and not headers
    if method == "POST":
        headers.setdefault("Idempotency-Key", uuid4().hex)
        repeatable = True
    if body is None and method != "DELETE":
        body = _body(fields)
    return Request(
        method=method, path=path, body=body, headers=headers, repeatable=repeatable
    )


def ask(path: str, fields: Mapping[str, Any]) -> Request[Any]:
    """A POST that changes nothing: what is asked for stands in no address."""
    return Request(method="POST", path=path, body=dict(fields))


def _headers(fields: Mapping[str, Any]) -> dict[str, str]:
    return {_HEADERS[name]: str(fields[name]) for name in fields if name in _HEADERS}


def _body(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in fields if name not in _HEADERS}


def _query(given: Mapping[str, Any]) -> dict[str, str]:
    """As it stands in the address: `from_` is `from`, labels are `label.<name>`."""
    plain = {name.rstrip("_"): value for name, value in given.items()}
    labels = plain.pop("labels", {})
    plain |= {f"label.{name}": value for name, value in labels.items()}
    return {name: _text(value) for name, value in plain.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
