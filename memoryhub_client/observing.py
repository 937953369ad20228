"""Observing: the observations that replace older messages in requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from memoryhub_client.requests import (
    AsOfQuery,
    Listing,
    MatchCondition,
    PartAsOf,
    Request,
    WriteConditions,
    build_listing,
    build_path,
    read,
    write,
)


class _RequiredLine(TypedDict):
    mark: Literal["low", "medium", "done", "critical"]
    text: str


class LineFields(_RequiredLine, total=False):
    at: str | None
    slots: Sequence[int] | None


class ObservationFields(WriteConditions, total=False):
    current_task: str | None
    suggested_response: str | None


class InstructionFields(MatchCondition, total=False):
    observer: str | None
    reflector: str | None


class ObservationFilter(PartAsOf, total=False):
    state: Literal["waiting", "log"]


class GenerationQuery(AsOfQuery, total=False):
    limit: int


def get(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "observer"), query)


def instruct(thread: str, **fields: Unpack[InstructionFields]) -> Request:
    """Set the thread's own instructions; None for the project's, "" for none."""
    return write("PATCH", build_path("threads", thread, "observer"), fields)


def get_log(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "log"), query)


def list_all(thread: str, **query: Unpack[ObservationFilter]) -> Listing:
    return build_listing(build_path("threads", thread, "observations"), query)


def list_generations(thread: str, **query: Unpack[GenerationQuery]) -> Request:
    return read(build_path("threads", thread, "generations"), query)


def create(
    thread: str,
    *,
    begin: int,
    end: int,
    epoch: int,
    lines: Sequence[LineFields],
    **fields: Unpack[ObservationFields],
) -> Request:
    """Store an observation of the messages `begin` to before `end`, as in `epoch`."""
    said = {"from": begin, "to": end, "epoch": epoch, "lines": lines, **fields}
    return write("POST", build_path("threads", thread, "observations"), said)


def run(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return _steer_observer(thread, "run", conditions)


def activate(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return _steer_observer(thread, "activate", conditions)


def abort(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return _steer_observer(thread, "abort", conditions)


def resume(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return _steer_observer(thread, "resume", conditions)


def reflect(thread: str, **conditions: Unpack[WriteConditions]) -> Request:
    return _steer_observer(thread, "reflect", conditions)


def _steer_observer(thread: str, verb: str, conditions: WriteConditions) -> Request:
    return write("POST", build_path("threads", thread, f"observer:{verb}"), conditions)
