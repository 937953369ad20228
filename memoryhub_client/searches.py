"""Searches: what was ever said, found by its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import AsOf, Request, ask, at

Kind = Literal[
    "message", "page", "note", "value", "task", "block", "fact", "observation"
]


class Words(TypedDict, total=False):
    """How to look; `from_` is `from`."""

    kinds: Sequence[Kind]
    order: Literal["best", "first", "newest"]
    limit: int
    from_: str
    to: str
    versions: bool
    explain: bool


class Search(Words, AsOf, total=False):
    """In a thread, as of an event or a turn's last."""


class Recall(Words, total=False):
    """Over a subject: in one thread of it, which is `thread`, or in all but one.

    Facts that hold at `valid_at`, by what was known at `known_at`; with `ended` also
    those that were over by then.
    """

    in_thread: str
    exclude_thread: str
    valid_at: str
    known_at: str
    ended: bool


def search(thread: str, query: str, **fields: Unpack[Search]) -> Request:
    return ask(at("threads", thread, "search"), _body(query, **fields))


def recall(thread: str, query: str, **fields: Unpack[Recall]) -> Request:
    return ask(at("threads", thread, "recall"), _body(query, **fields))


def recall_subject(subject: str, query: str, **fields: Unpack[Recall]) -> Request:
    return ask(at("subjects", subject, "recall"), _body(query, **fields))


def _body(query: str, /, **fields: object) -> dict[str, object]:
    words = {"from_": "from", "in_thread": "thread"}
    return {"query": query, **{words.get(n, n): v for n, v in fields.items()}}
