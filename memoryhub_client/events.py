"""Events: a thread's journal, listed or followed."""

from __future__ import annotations

from typing import Literal, Unpack

from memoryhub_client.requests import Feed, PartAsOf, build_feed, build_path


class JournalQuery(PartAsOf, total=False):
    content: Literal["full", "none"]


def list_all(thread: str, **query: Unpack[JournalQuery]) -> Feed:
    """List events: with `each` to the head, with `follow` without end; `after` is a
    seq."""
    return build_feed(build_path("threads", thread, "events"), query)
