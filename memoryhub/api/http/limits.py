"""Limits of this process: requests a second, bytes a day, open streams. In memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.conf import settings

from memoryhub.errors import RateError
from memoryhub.models.server.clock import clock
from memoryhub.services.access.api_keys import Agent

_DAY_SECONDS = 86_400
#: Buckets kept; the longest unused go first.
_KEPT = 10_000


@dataclass(slots=True)
class Bucket:
    """Tokens that fill up at a rate: a request takes one."""

    tokens: float
    at: float

    def take(self, *, rate: float, burst: float, now: float, tokens: int = 1) -> bool:
        """Take a token, and return whether there was one; 0 `tokens` only looks."""
        self.tokens = min(burst, self.tokens + (now - self.at) * rate)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= tokens
        return True


@dataclass(slots=True)
class Limits:
    """What each key and address has used. Only the event loop touches it."""

    clock: Callable[[], float] = clock.time
    keys: dict[str, Bucket] = field(default_factory=dict)
    addresses: dict[str, Bucket] = field(default_factory=dict)
    #: By key prefix: the day, and bytes in and out on it.
    bytes: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: By key prefix: streams and sockets that are open.
    streams: Counter[str] = field(default_factory=Counter)
    #: By address: sockets that have yet to show a key.
    waiting: Counter[str] = field(default_factory=Counter)

    def take(
        self,
        buckets: dict[str, Bucket],
        name: str,
        *,
        rate: float,
        burst: float,
        tokens: int = 1,
    ) -> None:
        now = self.clock()
        bucket = buckets.get(name)
        if bucket is None:
            if len(buckets) >= _KEPT:
                # Dicts keep their order: the first was made longest ago.
                del buckets[next(iter(buckets))]
            bucket = buckets[name] = Bucket(burst, now)
        if not bucket.take(rate=rate, burst=burst, now=now, tokens=tokens):
            raise RateError(retry_after_seconds=1, max_per_second=int(rate))

    def charge(self, name: str, size: int, *, refuse: bool = True) -> None:
        today, passed = divmod(int(self.clock()), _DAY_SECONDS)
        day, used = self.bytes.get(name, (today, 0))
        if day != today:
            used = 0
        if refuse and used + size > settings.KEY_BYTES_PER_DAY:
            raise RateError(
                retry_after_seconds=_DAY_SECONDS - passed,
                max_bytes_per_day=settings.KEY_BYTES_PER_DAY,
            )
        self.bytes[name] = (today, used + size)


#: The process's one account.
account = Limits()


def take_request(agent: Agent) -> None:
    """Count a request of a key. Raises RateError."""
    account.take(
        account.keys,
        agent.prefix,
        rate=settings.KEY_REQUESTS_PER_SECOND,
        burst=settings.KEY_BURST,
    )


def take_anonymous(address: str) -> None:
    """Count a request without a valid key. Raises RateError."""
    rate = settings.ANONYMOUS_REQUESTS_PER_SECOND
    account.take(account.addresses, address, rate=rate, burst=rate)


def require_anonymous(address: str) -> None:
    """Raise RateError when the address has no request without a valid key left."""
    rate = settings.ANONYMOUS_REQUESTS_PER_SECOND
    account.take(account.addresses, address, rate=rate, burst=rate, tokens=0)


def charge(agent: Agent, size: int) -> None:
    """Count bytes of a key before anything is done for them. Raises RateError."""
    account.charge(agent.prefix, size)


def charge_reply(agent: Agent, size: int) -> None:
    """Count bytes of an answer. What it tells is done, so the next request pays."""
    account.charge(agent.prefix, size, refuse=False)


def require_stream(agent: Agent) -> None:
    """Raise RateError when the key has as many streams open as it may."""
    _require_room(account.streams, agent.prefix, most=settings.KEY_STREAMS)


@contextmanager
def stream(agent: Agent) -> Iterator[None]:
    """Hold one of the key's streams or sockets open. Raises RateError."""
    with _held(account.streams, agent.prefix, most=settings.KEY_STREAMS):
        yield


@contextmanager
def waiting(address: str) -> Iterator[None]:
    """Hold a socket open that has shown no key yet. Raises RateError."""
    most = settings.ANONYMOUS_REQUESTS_PER_SECOND
    with _held(account.waiting, address, most=most):
        yield


@contextmanager
def _held(counts: Counter[str], name: str, *, most: int) -> Iterator[None]:
    _require_room(counts, name, most=most)
    counts[name] += 1
    try:
        yield
    finally:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]


def _require_room(counts: Counter[str], name: str, *, most: int) -> None:
    if counts[name] >= most:
        raise RateError(retry_after_seconds=1, max_open=most)
