"""Learning: whether a language model is asked for facts of what is said."""

from __future__ import annotations

from memoryhub_client.requests import Request, at, read, write


def get() -> Request:
    return read(at("learning"))


def put(*, ask: bool, backlog: int | None = None) -> Request:
    """From now on; with `backlog`, the number that `get` says, of all before, too."""
    return write("PUT", at("learning"), {"ask": ask, "backlog": backlog})
