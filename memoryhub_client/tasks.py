"""The task: an agent's work and its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from memoryhub_client.requests import (
    AbsentCondition,
    AsOfQuery,
    Request,
    build_path,
    read,
    write,
)


class TaskFields(AbsentCondition, total=False):
    description: str | None
    current_step: int | None
    progress_percent: float | None
    started_at: str | None
    data: Mapping[str, Any] | None
    status: Literal[
        "pending", "running", "blocked", "paused", "completed", "failed", "cancelled"
    ]


def get(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    return read(build_path("threads", thread, "task"), query)


def put(thread: str, **fields: Unpack[TaskFields]) -> Request:
    return write("PUT", build_path("threads", thread, "task"), fields)


def patch(thread: str, **fields: Unpack[TaskFields]) -> Request:
    return write("PATCH", build_path("threads", thread, "task"), fields)


def delete(thread: str, **fields: Unpack[AbsentCondition]) -> Request:
    return write("DELETE", build_path("threads", thread, "task"), fields)
