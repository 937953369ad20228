"""Turns: requests to a model, and their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.answers import TurnAnswer
from memoryhub_client.requests import (
    ActFields,
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
from memoryhub_client.slots import Slot

Mode = Literal["strict", "relaxed", "passive"]
Mark = Literal["wrong", "good"]
Format = Literal["chat", "responses", "anthropic", "gemini"]


class _RequiredTool(TypedDict):
    name: str


class Tool(_RequiredTool, total=False):
    """A tool of the agent's own."""

    description: str | None
    #: JSON schema of the tool's arguments.
    parameters: Mapping[str, Any]


class Beginning(ActFields, total=False):
    mode: Mode | None
    items: Sequence[Slot]
    continues: bool | None
    token_budget: int | None
    tools: Sequence[Tool] | None


class Feedback(ActFields, total=False):
    corrected: bool | None
    cited: Sequence[str]


class MarkFields(TypedDict, total=False):
    comment: str | None


class MarkQuery(PartQuery, total=False):
    mark: Mark


class ContextOptions(TypedDict, total=False):
    format: Format


class Previewing(AsOfQuery, total=False):
    mode: Mode
    token_budget: int


class DiffOptions(TypedDict, total=False):
    base: int


class PrefixOptions(TypedDict, total=False):
    block: int


def begin(thread: str, **fields: Unpack[Beginning]) -> Request[TurnAnswer]:
    """Begin a turn with these messages; `request` of the answer goes to the model."""
    return write("POST", build_path("threads", thread, "turns"), fields)


def rate(thread: str, turn: int, **fields: Unpack[Feedback]) -> Request:
    """Say whether the turn's answer was corrected, and which pages it relied on."""
    return write(
        "POST", build_path("threads", thread, "turns", turn, "feedback"), fields
    )


def mark(thread: str, turn: int, mark: Mark, **fields: Unpack[MarkFields]) -> Request:
    """Mark the turn's answer; the newest mark of a turn counts."""
    path = build_path("threads", thread, "turns", turn, "mark")
    return write("PUT", path, {"mark": mark, **fields})


def unmark(thread: str, turn: int) -> Request:
    path = build_path("threads", thread, "turns", turn, "mark")
    return write("DELETE", path, {})


def list_marked(**query: Unpack[MarkQuery]) -> Listing:
    """List the marked turns of the key's project, newest mark first."""
    return build_listing(build_path("turns:marked"), query)


def list_all(thread: str, **query: Unpack[PartAsOf]) -> Listing:
    return build_listing(build_path("threads", thread, "turns"), query)


def get(thread: str, turn: int) -> Request:
    return read(build_path("threads", thread, "turns", turn))


def get_context(thread: str, turn: int, **query: Unpack[ContextOptions]) -> Request:
    return read(build_path("threads", thread, "turns", turn, "context"), query)


def preview(thread: str, **query: Unpack[Previewing]) -> Request:
    return read(build_path("threads", thread, "context"), query)


def get_diff(thread: str, turn: int, **query: Unpack[DiffOptions]) -> Request:
    return read(build_path("threads", thread, "turns", turn, "diff"), query)


def get_prefix(thread: str, turn: int, **query: Unpack[PrefixOptions]) -> Request:
    return read(build_path("threads", thread, "turns", turn, "prefix"), query)
