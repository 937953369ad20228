"""Working memory: a thread's keys, task and notes at once."""

from __future__ import annotations

from typing import Unpack

from memoryhub_client.requests import AsOf, Request, at, read


class Much(AsOf, total=False):
    keys: int
    notes: int


def get(thread: str, **query: Unpack[Much]) -> Request:
    return read(at("threads", thread, "working-memory"), query)
