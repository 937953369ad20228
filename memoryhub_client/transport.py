"""Shared base of both clients: addresses, repeats and their waits, feeds."""

from __future__ import annotations

import json
import random
from typing import Any, TypedDict, TypeVar

import httpx2

from memoryhub_client.batches import BODY_BYTES
from memoryhub_client.problems import (
    Problem,
    Unreachable,
    build_problem,
    parse_retry_after,
)
from memoryhub_client.requests import Answer, Feed, Request

Http = TypeVar("Http", httpx2.Client, httpx2.AsyncClient)

#: Errors of a dropped, silent or refused connection, which may work again.
DROPPED = (
    httpx2.NetworkError,
    httpx2.RemoteProtocolError,
    httpx2.TimeoutException,
)
#: What ends a request of a feed, if it is not refused for good.
CUT = (*DROPPED, Unreachable, Problem)
#: Statuses of a proxy before a starting server, and ours for a full queue.
PASSING = {502, 503, 504}

FIRST_WAIT, MOST_WAIT = 0.25, 8.0
#: Longest silence of a live feed: the server sends a beat every 15 s.
SILENCE_SECONDS = 40.0


class Patience(TypedDict, total=False):
    """Limits of repeats, in seconds except `retries`, and bytes of a request."""

    retries: int
    longest_wait: float
    timeout: float
    body_bytes: int


class Transport:
    """The hub's address and a client's limits of repeats.

    A repeatable request is repeated up to `retries` times, after the seconds in
    Retry-After or after growing waits. A wait above `longest_wait` raises instead.
    `body_bytes` is the hub's MEMORYHUB_BODY_BYTES: adapters refuse what is larger
    before they write anything.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retries: int = 5,
        longest_wait: float = 30.0,
        timeout: float = 30.0,
        body_bytes: int = BODY_BYTES,
    ) -> None:
        self.base = url.rstrip("/") + "/api/v1"
        self.headers = {"Authorization": f"Bearer {key}"}
        self.retries = retries
        self.longest_wait = longest_wait
        self.timeout = timeout
        self.body_bytes = body_bytes

    def build(self, request: Request[Any], http: Http, *, live: bool) -> httpx2.Request:
        headers = {**self.headers, **request.headers}
        content = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(request.body, allow_nan=False).encode()
        if live and isinstance(request, Feed):
            headers["Accept"] = "text/event-stream"
        return http.build_request(
            request.method,
            self.base + request.path,
            params=dict(request.query) or None,
            content=content,
            headers=headers,
            timeout=httpx2.Timeout(
                self.timeout, read=SILENCE_SECONDS if live else self.timeout
            ),
        )

    def after_failure(
        self, request: Request[Any], tried: int, failure: httpx2.TransportError
    ) -> float:
        """Return the seconds until the repeat. Raises Unreachable."""
        if request.repeatable and tried < self.retries:
            return compute_backoff(tried)
        raise Unreachable(f"{request.method} {request.path}: {failure}") from failure

    def after_answer(
        self, request: Request[Any], tried: int, response: httpx2.Response
    ) -> float | None:
        """Return the seconds until the repeat; None on success. Raises Problem."""
        if response.is_success:
            return None
        refused, asked = build_problem(response), parse_retry_after(response)
        pause = compute_backoff(tried) if asked is None else asked
        passing = (
            refused.status in PASSING
            or asked is not None
            # The first request with this key is still running.
            or refused.code == "in_progress"
        )
        more = request.repeatable and tried < self.retries
        if not (passing and more and pause <= self.longest_wait):
            raise refused
        return pause


def compute_backoff(tried: int) -> float:
    """Compute a wait that doubles each time, with jitter, in seconds."""
    longest: float = min(FIRST_WAIT * 2**tried, MOST_WAIT)
    return random.uniform(0.5, 1) * longest  # noqa: S311  # nothing to guess


def parse_answer(request: Request[Answer], response: httpx2.Response) -> Answer:
    body: Answer = json.loads(response.content)
    return body


class FeedPosition:
    """Position in a feed; after a cut the feed continues after the last event."""

    def __init__(self, request: Feed) -> None:
        self.request = request
        #: Whether the hub has answered: until then its address may be wrong.
        self.was_open = False
        self._cuts = 0

    def take(self, sent: httpx2.ServerSentEvent) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(sent.data)
        self.request = self.request.going_on(sent.id)
        self._cuts = 0
        return event

    def compute_pause(self, failure: Exception | None = None) -> float:
        """Count a cut and return the seconds until the next request.

        Raises the failure of a feed that was never open, and any refusal but that of
        a hub which is starting, stopping or full.
        """
        asked = 0.0
        if isinstance(failure, Problem):
            if failure.status not in PASSING:
                raise failure
            asked = failure.retry or 0.0
        if isinstance(failure, (Problem, Unreachable)) and not self.was_open:
            raise failure
        self._cuts += 1
        return max(asked, compute_backoff(self._cuts - 1))
