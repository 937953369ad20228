"""Searches: messages and other records, found by their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import AsOfQuery, Request, ask, build_path

Kind = Literal[
    "message", "page", "note", "value", "task", "block", "fact", "observation"
]


class SearchOptions(TypedDict, total=False):
    """Options of a search; `from_` is sent as `from`."""

    kinds: Sequence[Kind]
    order: Literal["best", "first", "newest"]
    limit: int
    from_: str
    to: str
    versions: bool
    modality: Literal["text", "image", "audio", "video", "structured"]
    explain: bool


class ThreadSearchOptions(SearchOptions, AsOfQuery, total=False):
    """Options of a search in a thread, as of an event or a turn's last event."""


class RecallOptions(SearchOptions, total=False):
    """Options of a search over a subject, in one thread (`in_thread`) or in all but
    one.

    Facts are those valid at `valid_at`, as known at `known_at`; with `ended` also facts
    that ended before `valid_at`.
    """

    in_thread: str
    exclude_thread: str
    valid_at: str
    known_at: str
    ended: bool


def search(thread: str, query: str, **fields: Unpack[ThreadSearchOptions]) -> Request:
    return ask(build_path("threads", thread, "search"), _build_body(query, **fields))


def recall(thread: str, query: str, **fields: Unpack[RecallOptions]) -> Request:
    return ask(build_path("threads", thread, "recall"), _build_body(query, **fields))


def recall_subject(
    subject: str, query: str, **fields: Unpack[RecallOptions]
) -> Request:
    return ask(build_path("subjects", subject, "recall"), _build_body(query, **fields))


def _build_body(query: str, /, **fields: object) -> dict[str, object]:
    words = {"from_": "from", "in_thread": "thread"}
    return {"query": query, **{words.get(n, n): v for n, v in fields.items()}}
