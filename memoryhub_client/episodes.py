"""Episodes: past exchanges of a subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from memoryhub_client.requests import (
    Listing,
    PartQuery,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    write,
)


class EpisodeToolUse(TypedDict):
    name: str
    arguments: NotRequired[Any]
    result: NotRequired[str | None]


class EpisodeFields(WriteConditions):
    thread: str
    input: str
    output: str
    tool_calls: NotRequired[Sequence[EpisodeToolUse]]
    occurred_at: NotRequired[str | None]


class ConsolidateFields(WriteConditions):
    thread: NotRequired[str | None]
    limit: NotRequired[int]


class EpisodeSearch(PartQuery, total=False):
    thread: str
    from_: str
    to: str
    recorded_before: str
    consolidation: Literal["pending", "consolidated", "failed", "given_up"]


def remember(subject: str, **episode: Unpack[EpisodeFields]) -> Request:
    """Append the messages of one exchange to a thread of the subject."""
    return write("POST", build_path("subjects", subject, "episodes"), episode)


def mark_consolidated(
    subject: str, thread: str, index: int, **fields: Unpack[WriteConditions]
) -> Request:
    """Mark the exchange at slot `index`: the agent has learnt from it itself."""
    stated = {"thread": thread, "index": index, **fields}
    return write(
        "POST", build_path("subjects", subject, "episodes:consolidated"), stated
    )


def consolidate(subject: str, **fields: Unpack[ConsolidateFields]) -> Request:
    """Have the language model asked about pending exchanges that are over."""
    return write(
        "POST", build_path("subjects", subject, "episodes:consolidate"), fields
    )


def list_all(subject: str, **query: Unpack[EpisodeSearch]) -> Listing:
    return build_listing(build_path("subjects", subject, "episodes"), query)
