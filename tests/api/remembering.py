"""Requests to the API for tests of working memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from memoryhub.api.http import limits
from memoryhub.models.server.clock import clock
from tests.api.client import Answer, Client

T = "/threads/t-1"
NOON = datetime(2030, 3, 1, 12, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Hands:
    """Clock that stands still until a test moves it. Exact to the µs."""

    def __init__(self, moment: datetime) -> None:
        self.now = moment

    def shift(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def time_ns(self) -> int:
        return (self.now - _EPOCH) // _MICROSECOND * 1_000


@contextmanager
def still(moment: datetime = NOON) -> Iterator[Hands]:
    """Stop the hub's time at that moment until moved; no rate is used up meanwhile."""
    hands = Hands(moment)
    clock.use_source(hands.time_ns)
    limits.account = limits.UsageAccount()
    yield hands
    clock.use_source(time.time_ns)
    limits.account = limits.UsageAccount()


async def put(api: Client, key: str, value: Any = 1, **said: Any) -> Answer:
    """Set a key of t-1; `headers` are sent along, all else is the body."""
    headers = said.pop("headers", ())
    body = {"value": value, **said}
    return await api.put(f"{T}/keys/{key}", body, headers=headers)


async def get(api: Client, key: str, query: str = "") -> Answer:
    return await api.get(f"{T}/keys/{key}{query}")


async def delete(api: Client, path: str, **options: Any) -> Answer:
    return await api.send("DELETE", T + path, **options)


async def list_names(api: Client, query: str = "", *, thread: str = T) -> list[str]:
    """Return the names of the keys in a list, in order, through all parts."""
    return [item["key"] for item in await items(api, "/keys", query, thread=thread)]


async def items(
    api: Client, path: str, query: str = "", *, thread: str = T
) -> list[dict[str, Any]]:
    """Return all items of a list, part by part."""
    found: list[dict[str, Any]] = []
    answer = await api.get(f"{thread}{path}{query}")
    while True:
        assert answer.status == 200, answer.body
        found += answer.json["items"]
        if answer.json["next"] is None:
            return found
        more = f"{'&' if query else '?'}after={answer.json['next']}"
        answer = await api.get(f"{thread}{path}{query}{more}")


async def note(api: Client, text: str = "hm") -> int:
    """Add a note to t-1 and return its number."""
    added = await api.post(f"{T}/notes", {"text": text})
    assert added.status == 201, added.body
    return int(added.json["seq"])


async def take(api: Client, name: str | None = None, *, thread: str = T) -> int:
    """Take a checkpoint and return its number."""
    body = {} if name is None else {"name": name}
    taken = await api.post(f"{thread}/checkpoints", body)
    assert taken.status == 201, taken.body
    return int(taken.json["seq"])


async def restore(
    api: Client, target: int | str, *, thread: str = T, **said: Any
) -> Answer:
    headers = said.pop("headers", ())
    path = f"{thread}/checkpoints/{target}:restore"
    return await api.post(path, said, headers=headers)


async def point(api: Client, target: int | str, *, thread: str = T) -> dict[str, Any]:
    answer = await api.get(f"{thread}/checkpoints/{target}")
    assert answer.status == 200, answer.body
    return dict(answer.json)


async def seqs(api: Client, query: str = "", *, thread: str = T) -> list[int]:
    found = await items(api, "/checkpoints", query, thread=thread)
    return [line["seq"] for line in found]


async def compare(api: Client, query: str, *, thread: str = T) -> dict[str, Any]:
    answer = await api.get(f"{thread}/checkpoints:compare?{query}")
    assert answer.status == 200, answer.body
    return dict(answer.json)


def if_match(version: object) -> list[tuple[str, str]]:
    return [("if-match", str(version))]


CREATE_ONLY = [("if-none-match", "*")]
