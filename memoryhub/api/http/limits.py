"""Limits of this process, in memory: requests a second, bytes a day, open streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil

from django.conf import settings

from memoryhub.errors import RateError
from memoryhub.models.server.clock import clock
from memoryhub.services.access.api_keys import Agent

_DAY_SECONDS = 86_400
#: Most buckets kept; the oldest are dropped first.
_KEPT = 10_000


@dataclass(slots=True)
class TokenBucket:
    """A token bucket that refills at a rate; a request takes one token."""

    tokens: float
    at: float

    def take_token(
        self, *, rate: float, burst: float, now: float, tokens: int = 1
    ) -> bool:
        """Take a token and return whether there was one; 0 `tokens` only looks."""
        self.tokens = min(burst, self.tokens + (now - self.at) * rate)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= tokens
        return True


@dataclass(slots=True)
class UsageAccount:
    """Usage of each key and address. Only the event loop touches the account."""

    clock: Callable[[], float] = clock.time
    keys: dict[str, TokenBucket] = field(default_factory=dict)
    addresses: dict[str, TokenBucket] = field(default_factory=dict)
    #: Day, and bytes in and out on that day, by key prefix.
    bytes: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Open streams and sockets, by key prefix.
    streams: Counter[str] = field(default_factory=Counter)
    #: Sockets that have not shown a key yet, by address.
    waiting: Counter[str] = field(default_factory=Counter)

    def take(
        self,
        buckets: dict[str, TokenBucket],
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
                # Dicts keep insertion order: the first bucket is the oldest.
                del buckets[next(iter(buckets))]
            bucket = buckets[name] = TokenBucket(burst, now)
        if not bucket.take_token(rate=rate, burst=burst, now=now, tokens=tokens):
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


#: The only account of this process.
account = UsageAccount()


def take_request(agent: Agent) -> None:
    """Count a request of a key. Raises RateError."""
    account.take(
        account.keys,
        agent.prefix,
        rate=settings.KEY_REQUESTS_PER_SECOND,
        burst=settings.KEY_BURST,
    )


def build_headers(agent: Agent) -> list[tuple[bytes, bytes]]:
    """Build the headers of an answer that tell a key's rate and what is left of it.

    They are those of the IETF's draft (draft-ietf-httpapi-ratelimit-headers-10), which
    defines its fields; `X-RateLimit-Reset` is a time for some and seconds for others.
    """
    rate, burst = settings.KEY_REQUESTS_PER_SECOND, settings.KEY_BURST
    bucket = account.keys.get(agent.prefix)
    left = burst if bucket is None else bucket.tokens
    policy = b'"key";q=%d;w=%d' % (burst, ceil(burst / rate))
    rest = b'"key";r=%d;t=%d' % (left, ceil((burst - left) / rate))
    return [(b"ratelimit-policy", policy), (b"ratelimit", rest)]


def take_anonymous(address: str) -> None:
    """Count a request without a valid key. Raises RateError."""
    rate = settings.ANONYMOUS_REQUESTS_PER_SECOND
    account.take(account.addresses, address, rate=rate, burst=rate)


def require_anonymous(address: str) -> None:
    """Raise RateError when the address has no request without a valid key left."""
    rate = settings.ANONYMOUS_REQUESTS_PER_SECOND
    account.take(account.addresses, address, rate=rate, burst=rate, tokens=0)


def charge(agent: Agent, size: int) -> None:
    """Count bytes of a key before the work for these bytes starts. Raises RateError."""
    account.charge(agent.prefix, size)


def charge_reply(agent: Agent, size: int) -> None:
    """Count bytes of an answer. The work is done: only the next request is refused."""
    account.charge(agent.prefix, size, refuse=False)


def require_stream(agent: Agent) -> None:
    """Raise RateError when the key has reached its limit of open streams."""
    _require_room(account.streams, agent.prefix, most=settings.KEY_STREAMS)


@contextmanager
def hold_stream(agent: Agent) -> Iterator[None]:
    """Hold one of the key's streams or sockets open. Raises RateError."""
    with _hold_place(account.streams, agent.prefix, most=settings.KEY_STREAMS):
        yield


@contextmanager
def hold_waiting_socket(address: str) -> Iterator[None]:
    """Hold open a socket that has shown no key yet. Raises RateError."""
    most = settings.ANONYMOUS_REQUESTS_PER_SECOND
    with _hold_place(account.waiting, address, most=most):
        yield


@contextmanager
def _hold_place(counts: Counter[str], name: str, *, most: int) -> Iterator[None]:
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
