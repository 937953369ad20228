"""Working memory: a thread's keys, task and notes at once."""

from __future__ import annotations

from typing import Unpack

from memoryhub_client.requests import AsOfQuery, Request, build_path, read


class MemoryLimits(AsOfQuery, total=False):
    keys: int
    notes: int


def get(thread: str, **query: Unpack[MemoryLimits]) -> Request:
    return read(build_path("threads", thread, "working-memory"), query)
