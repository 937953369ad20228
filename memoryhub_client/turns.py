"""Turns: the request a model is given, and its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.answers import Turn
from memoryhub_client.requests import (
    Act,
    AsOf,
    Listing,
    PartAsOf,
    Request,
    at,
    listing,
    read,
    write,
)
from memoryhub_client.slots import Slot

Mode = Literal["strict", "relaxed", "passive"]
Format = Literal["chat", "responses", "anthropic"]


class _Named(TypedDict):
    name: str


class Tool(_Named, total=False):
    """One of the agent's own."""

    description: str | None
    #: JSON schema of its arguments.
    parameters: Mapping[str, Any]


class Beginning(Act, total=False):
    mode: Mode | None
    items: Sequence[Slot]
    continues: bool | None
    token_budget: int | None
    tools: Sequence[Tool] | None


class Again(TypedDict, total=False):
    format: Format


class Previewing(AsOf, total=False):
    mode: Mode
    token_budget: int


class Against(TypedDict, total=False):
    base: int


class Lens(TypedDict, total=False):
    block: int


def begin(thread: str, **fields: Unpack[Beginning]) -> Request[Turn]:
    """Append these messages; `request` of the answer is what to send to the model."""
    return write("POST", at("threads", thread, "turns"), fields)


def list_all(thread: str, **query: Unpack[PartAsOf]) -> Listing:
    return listing(at("threads", thread, "turns"), query)


def get(thread: str, turn: int) -> Request:
    return read(at("threads", thread, "turns", turn))


def get_context(thread: str, turn: int, **query: Unpack[Again]) -> Request:
    return read(at("threads", thread, "turns", turn, "context"), query)


def preview(thread: str, **query: Unpack[Previewing]) -> Request:
    return read(at("threads", thread, "context"), query)


def get_diff(thread: str, turn: int, **query: Unpack[Against]) -> Request:
    return read(at("threads", thread, "turns", turn, "diff"), query)


def get_prefix(thread: str, turn: int, **query: Unpack[Lens]) -> Request:
    return read(at("threads", thread, "turns", turn, "prefix"), query)
