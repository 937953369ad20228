"""The asynchronous client, parallel to `client` line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import count
from typing import Any, Self, Unpack

import httpx2

from memoryhub_client.problems import Unreachable
from memoryhub_client.requests import Answer, Download, Feed, Listing, Request
from memoryhub_client.transport import (
    CUT,
    DROPPED,
    FeedPosition,
    Patience,
    Transport,
    parse_answer,
)


class AsyncClient(Transport):
    """One hub by one key, over kept connections. Tasks of one loop may share it."""

    def __init__(self, url: str, key: str, **patience: Unpack[Patience]) -> None:
        super().__init__(url, key, **patience)
        self._http = httpx2.AsyncClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: Request[Answer]) -> Answer:
        """Send the request; return the server's answer. Raises Problem, Unreachable."""
        return parse_answer(request, await self._open(request))

    async def each(self, request: Listing) -> AsyncGenerator[dict[str, Any], None]:
        """Yield all items to the end of the list, part by part."""
        cursor: str | None = ""
        while cursor is not None:
            part = await self.send(request.going_on(cursor) if cursor else request)
            for item in part[request.items]:
                yield item
            cursor = part["next"]

    async def follow(self, request: Feed) -> AsyncGenerator[dict[str, Any], None]:
        """Yield events as they happen, each once, for as long as the caller waits.

        A hub that stops is asked again, each 8 s at last, and the feed goes on after
        the last event. Raises Unreachable if the hub has not answered yet, and Problem.
        Close an unfinished iteration with `contextlib.aclosing`, or its connection
        stays open.
        """
        following = FeedPosition(request)
        while True:
            cut: Exception | None = None
            try:
                async with aclosing(await self._open(following.request, live=True)) as (
                    response
                ):
                    following.was_open = True
                    source = httpx2.EventSource(response, max_event_size=None)
                    async for sent in source:
                        yield following.take(sent)
            except CUT as failure:
                cut = failure
            await asyncio.sleep(following.compute_pause(cut))

    async def download(self, request: Download) -> AsyncGenerator[bytes, None]:
        """Yield the file in pieces. Raises Unreachable if the connection drops."""
        async with aclosing(await self._open(request, live=True)) as response:
            try:
                async for piece in response.aiter_bytes():
                    yield piece
            except DROPPED as failure:
                raise Unreachable(str(failure)) from failure

    async def _open(
        self, request: Request[Any], *, live: bool = False
    ) -> httpx2.Response:
        for tried in count():
            built = self.build(request, self._http, live=live)
            try:
                response = await self._http.send(built, stream=live)
                if not response.is_success:
                    await response.aread()
            except DROPPED as failure:
                pause = self.after_failure(request, tried, failure)
            else:
                wait = self.after_answer(request, tried, response)
                if wait is None:
                    return response
                pause = wait
            await asyncio.sleep(pause)
        raise AssertionError("a count ends")
