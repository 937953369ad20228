"""The task: what an agent is doing, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from memoryhub_client.requests import Absent, AsOf, Request, at, read, write


class Task(Absent, total=False):
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: str | None
    data: Mapping[str, Any] | None
    status: Literal[
        "pending", "running", "blocked", "paused", "completed", "failed", "cancelled"
    ]


def get(thread: str, **query: Unpack[AsOf]) -> Request:
    return read(at("threads", thread, "task"), query)


def put(thread: str, **fields: Unpack[Task]) -> Request:
    return write("PUT", at("threads", thread, "task"), fields)


def patch(thread: str, **fields: Unpack[Task]) -> Request:
    return write("PATCH", at("threads", thread, "task"), fields)


def delete(thread: str, **fields: Unpack[Absent]) -> Request:
    return write("DELETE", at("threads", thread, "task"), fields)
