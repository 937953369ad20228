"""Episodes: what happened, an exchange at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict, Unpack

from memoryhub_client.requests import (
    Conditions,
    Listing,
    Part,
    Request,
    at,
    listing,
    write,
)


class ToolUse(TypedDict):
    name: str
    arguments: NotRequired[Any]
    result: NotRequired[str | None]


class Episode(Conditions):
    thread: str
    input: str
    output: str
    tool_calls: NotRequired[Sequence[ToolUse]]
    occurred_at: NotRequired[str | None]


class Search(Part, total=False):
    thread: str
    from_: str
    to: str


def remember(subject: str, **episode: Unpack[Episode]) -> Request:
    """Append the messages of one exchange to a thread of the subject."""
    return write("POST", at("subjects", subject, "episodes"), episode)


def list_all(subject: str, **query: Unpack[Search]) -> Listing:
    return listing(at("subjects", subject, "episodes"), query)
