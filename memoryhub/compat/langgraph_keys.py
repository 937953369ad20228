"""Keys of threads that LangGraph's clients share, read and written by the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from memoryhub.api.http.calls import ApiCaller, HubRefusedError, build_path

#: Most items of a part of a list, and most parts of a list of keys in a request.
BATCH, MOST_PARTS = 200, 25


@contextmanager
def allow_missing(*more: int) -> Iterator[None]:
    """Suppress a 404, or more statuses: a missing thread or key has nothing."""
    try:
        yield
    except HubRefusedError as refused:
        if refused.status not in (404, *more):
            raise


async def iter_listed(
    api: ApiCaller, path: str, *, parts: int = MOST_PARTS, **query: Any
) -> AsyncIterator[Any]:
    """Yield the items of a list. Raises HubRefusedError if it has more parts."""
    sent = {"limit": BATCH, **query}
    for _ in range(parts):
        part = await api.call("GET", f"{path}?{urlencode(sent)}")
        for item in part["items"]:
            yield item
        if part["next"] is None:
            return
        sent["after"] = part["next"]
    words = "ask for fewer by ids, a longer namespace, or the hub's own API"
    raise HubRefusedError(413, f"list_too_long: {words}")


async def list_keys(
    api: ApiCaller, thread: str, glob: str, *, values: bool = True
) -> list[Any]:
    """List keys of a thread; an unknown thread has none."""
    path = f"{build_path('threads', thread)}/keys"
    wanted: dict[str, Any] = {"glob": glob, "values": str(values).lower()}
    found = list[Any]()
    with allow_missing():
        found += [each async for each in iter_listed(api, path, **wanted)]
    return found
