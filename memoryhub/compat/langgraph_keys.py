"""Keys of threads that LangGraph's clients share, read and written by the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path

#: Most items of a part of a list.
BATCH: Final = 200


@contextmanager
def allow_missing() -> Iterator[None]:
    """Suppress a 404: a missing thread or key has nothing."""
    try:
        yield
    except HubRefusedError as refused:
        if refused.status != 404:
            raise


async def iter_listed(api: ApiCaller, path: str, **query: Any) -> AsyncIterator[Any]:
    """Yield the items of a list, part by part."""
    limit = min(BATCH, query.pop("limit", BATCH))
    after: dict[str, str] = {}
    while True:
        sent = urlencode({**query, "limit": limit, **after})
        part = await api.call("GET", f"{path}?{sent}")
        for item in part["items"]:
            yield item
        if part["next"] is None:
            return
        after = {"after": part["next"]}


async def list_keys(
    api: ApiCaller, thread: str, glob: str, *, values: bool = True
) -> list[Any]:
    """List keys of a thread; an unknown thread has none."""
    path = f"{build_path('threads', thread)}/keys"
    wanted = {"glob": glob, "values": str(values).lower()}
    found = list[Any]()
    with allow_missing():
        found += [each async for each in iter_listed(api, path, **wanted)]
    return found


async def ensure_thread(api: ApiCaller, thread: str, body: Any) -> None:
    """Make the thread if there is none."""
    path = build_path("threads", thread)
    try:
        await api.call("GET", path)
    except HubRefusedError as refused:
        if refused.status != 404:
            raise
        await api.call("PUT", path, body)
