"""Observing: what stands in requests in the place of older messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    AsOf,
    Conditions,
    Listing,
    PartAsOf,
    Request,
    at,
    listing,
    read,
    write,
)


class _Line(TypedDict):
    mark: Literal["low", "medium", "done", "critical"]
    text: str


class Line(_Line, total=False):
    at: str | None
    slots: Sequence[int] | None


class Observing(Conditions, total=False):
    current_task: str | None
    suggested_response: str | None


class Filter(PartAsOf, total=False):
    state: Literal["waiting", "log"]


class Newest(AsOf, total=False):
    limit: int


def get(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "observer"), query)


def get_log(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "log"), query)


def list_all(thread: str, **query: Unpack[Filter]) -> Listing:
    return listing(at("threads", thread, "observations"), query)


def list_generations(thread: str, **query: Unpack[Newest]) -> Request:
    return read(at("threads", thread, "generations"), query)


def create(
    thread: str,
    *,
    begin: int,
    end: int,
    epoch: int,
    lines: Sequence[Line],
    **fields: Unpack[Observing],
) -> Request:
    """Observe the messages from `begin` to before `end`, as they were in `epoch`."""
    said = {"from": begin, "to": end, "epoch": epoch, "lines": lines, **fields}
    return write("POST", at("threads", thread, "observations"), said)


def run(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return _steer(thread, "run", conditions)


def activate(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return _steer(thread, "activate", conditions)


def abort(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return _steer(thread, "abort", conditions)


def resume(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return _steer(thread, "resume", conditions)


def reflect(thread: str, **conditions: Unpack[Conditions]) -> Request:
    return _steer(thread, "reflect", conditions)


def _steer(thread: str, verb: str, conditions: Conditions) -> Request:
    return write("POST", at("threads", thread, f"observer:{verb}"), conditions)
