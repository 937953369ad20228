"""All that both clients share: addresses, what is sent again and when, feeds."""

from __future__ import annotations

import json
import random
from typing import Any, TypedDict, TypeVar

import httpx2

from memoryhub_client.problems import Unreachable, problem, retry_after
from memoryhub_client.requests import Answer, Feed, Request

Http = TypeVar("Http", httpx2.Client, httpx2.AsyncClient)

#: A line that was cut, silent or never there; it may work again.
DROPPED = (
    httpx2.NetworkError,
    httpx2.RemoteProtocolError,
    httpx2.TimeoutException,
)
#: A proxy's words for a server that is starting, and our own for a full queue.
PASSING = {502, 503, 504}

FIRST_WAIT, MOST_WAIT = 0.25, 8.0
#: A feed that is silent for longer is dead: it says that it is there every 15 s.
SILENCE_SECONDS = 40.0


class Patience(TypedDict, total=False):
    """How long to go on; in seconds, but for `retries`."""

    retries: int
    longest_wait: float
    timeout: float


class Transport:
    """Where the hub is, and how patient a client is with it.

    A repeatable request is sent up to `retries` times again, each time after what
    Retry-After says, or longer and longer; after `longest_wait` it is not waited for.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        retries: int = 5,
        longest_wait: float = 30.0,
        timeout: float = 30.0,
    ) -> None:
        self.base = url.rstrip("/") + "/api/v1"
        self.headers = {"Authorization": f"Bearer {key}"}
        self.retries = retries
        self.longest_wait = longest_wait
        self.timeout = timeout

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
        """Seconds until it is sent again. Raises Unreachable."""
        if request.repeatable and tried < self.retries:
            return backoff(tried)
        raise Unreachable(f"{request.method} {request.path}: {failure}") from failure

    def after_answer(
        self, request: Request[Any], tried: int, response: httpx2.Response
    ) -> float | None:
        """Seconds until it is sent again; None if it is answered. Raises Problem."""
        if response.is_success:
            return None
        refused, asked = problem(response), retry_after(response)
        pause = backoff(tried) if asked is None else asked
        passing = (
            refused.status in PASSING
            or asked is not None
            # The first of the same key is still at work.
            or refused.code == "in_progress"
        )
        more = request.repeatable and tried < self.retries
        if not (passing and more and pause <= self.longest_wait):
            raise refused
        return pause


def backoff(tried: int) -> float:
    """Twice as long each time, and no two clients at the same moment."""
    longest: float = min(FIRST_WAIT * 2**tried, MOST_WAIT)
    return random.uniform(0.5, 1) * longest  # noqa: S311  # nothing to guess


def answer(request: Request[Answer], response: httpx2.Response) -> Answer:
    body: Answer = json.loads(response.content)
    return body


class Following:
    """Where a feed stands; after a cut it goes on behind the last event that came."""

    def __init__(self, request: Feed) -> None:
        self.request = request
        self._cuts = 0

    def take(self, sent: httpx2.ServerSentEvent) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(sent.data)
        self.request = self.request.going_on(sent.id)
        self._cuts = 0
        return event

    def pause(self) -> float:
        """Seconds until it is asked for again."""
        self._cuts += 1
        return backoff(self._cuts - 1)
