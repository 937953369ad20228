"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
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


class Client(Transport):
    """One hub by one key, over kept connections. Threads may share the client."""

    def __init__(self, url: str, key: str, **patience: Unpack[Patience]) -> None:
        super().__init__(url, key, **patience)
        self._http = httpx2.Client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, request: Request[Answer]) -> Answer:
        """Send the request; return the server's answer. Raises Problem, Unreachable."""
        return parse_answer(request, self._open(request))

    def each(self, request: Listing) -> Generator[dict[str, Any], None, None]:
        """Yield all items to the end of the list, part by part."""
        cursor: str | None = ""
        while cursor is not None:
            part = self.send(request.going_on(cursor) if cursor else request)
            yield from part[request.items]
            cursor = part["next"]

    def follow(self, request: Feed) -> Generator[dict[str, Any], None, None]:
        """Yield events as they happen, each once, for as long as the caller waits.

        A hub that stops is asked again, each 8 s at last, and the feed goes on after
        the last event. Raises Unreachable if the hub has not answered yet, and Problem.
        """
        following = FeedPosition(request)
        while True:
            cut: Exception | None = None
            try:
                with closing(self._open(following.request, live=True)) as response:
                    following.was_open = True
                    for sent in httpx2.EventSource(response, max_event_size=None):
                        yield following.take(sent)
            except CUT as failure:
                cut = failure
            time.sleep(following.compute_pause(cut))

    def download(self, request: Download) -> Generator[bytes, None, None]:
        """Yield the file in pieces. Raises Unreachable if the connection drops."""
        with closing(self._open(request, live=True)) as response:
            try:
                yield from response.iter_bytes()
            except DROPPED as failure:
                raise Unreachable(str(failure)) from failure

    def _open(self, request: Request[Any], *, live: bool = False) -> httpx2.Response:
        for tried in count():
            built = self.build(request, self._http, live=live)
            try:
                response = self._http.send(built, stream=live)
                if not response.is_success:
                    response.read()
            except DROPPED as failure:
                pause = self.after_failure(request, tried, failure)
            else:
                wait = self.after_answer(request, tried, response)
                if wait is None:
                    return response
                pause = wait
            time.sleep(pause)
        raise AssertionError("a count ends")
