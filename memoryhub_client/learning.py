"""Learning: whether a language model is asked for facts in exchanges."""

from __future__ import annotations

from memoryhub_client.requests import Request, build_path, read, write


def get() -> Request:
    return read(build_path("learning"))


def put(*, ask: bool, backlog: int | None = None) -> Request:
    """Set learning from now on; `backlog`, the number from `get`, includes older
    exchanges."""
    return write("PUT", build_path("learning"), {"ask": ask, "backlog": backlog})
