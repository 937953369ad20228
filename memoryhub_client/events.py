"""Events: a thread's journal, listed or followed."""

from __future__ import annotations

from typing import Literal, Unpack

from memoryhub_client.requests import Feed, PartAsOf, at, feed


class Journal(PartAsOf, total=False):
    content: Literal["full", "none"]


def list_all(thread: str, **query: Unpack[Journal]) -> Feed:
    """For `each` to the head, for `follow` without end; `after` is a seq."""
    return feed(at("threads", thread, "events"), query)
