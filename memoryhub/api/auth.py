"""Who asks: an API key in `Authorization`, and nothing else."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.http import HttpRequest
from django.utils import timezone

from memoryhub.api import limits
from memoryhub.errors import ScopeError, UnauthorizedError
from memoryhub.queries.readers import read
from memoryhub.services import agents
from memoryhub.services.api_keys import Agent

READ: Final = "memory:read"
WRITE: Final = "memory:write"

#: How long a key is believed before the database is asked again.
BELIEVED_SECONDS = 1.0
_KEPT = 10_000
_BEARER = re.compile(r"bearer ([\x21-\x7e]{1,256})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Known:
    agent: Agent
    expires_at: datetime | None
    until: float


#: By SHA-256 of the key: the keys themselves are not kept.
_known: dict[bytes, _Known] = {}


def caller(request: HttpRequest) -> Agent:
    """Who sent this request; set once it was admitted."""
    agent = request.auth  # type: ignore[attr-defined]  # Ninja's name for it
    assert isinstance(agent, Agent)
    return agent


async def admit(request: HttpRequest, *, needs: str) -> Agent:
    """The agent behind a request. Raises UnauthorizedError, ScopeError, RateError."""
    agent = await _admitted(_sent_key(request), request.META.get("REMOTE_ADDR", ""))
    limits.take_request(agent)
    if needs not in agent.scopes:
        raise ScopeError(needs=needs)
    return agent


async def believed(request: HttpRequest) -> bool:
    """Whether the key of a stream that is open still holds."""
    key = _sent_key(request)
    return key is not None and await _agent(key) is not None


def forget() -> None:
    """Ask the database again for every key."""
    _known.clear()


def _sent_key(request: HttpRequest) -> str | None:
    bearer = _BEARER.fullmatch(request.META.get("HTTP_AUTHORIZATION", ""))
    return bearer[1] if bearer else None


async def _admitted(key: str | None, address: str) -> Agent:
    """Who holds the key. Raises UnauthorizedError, RateError.

    The database is not asked for a key that was never right here while its address has
    used up its guesses.
    """
    agent = None
    if key is not None:
        if _digest(key) not in _known:
            limits.require_anonymous(address)
        agent = await _agent(key)
    if agent is None:
        limits.take_anonymous(address)
        raise UnauthorizedError
    return agent


async def _agent(key: str) -> Agent | None:
    digest = _digest(key)
    known = _known.get(digest)
    if known is not None and known.until > time.monotonic():
        expired = known.expires_at is not None and known.expires_at <= timezone.now()
        return None if expired else known.agent
    found = await read(agents.find, key, now=timezone.now())
    _known.pop(digest, None)
    if found is None:
        return None
    if len(_known) >= _KEPT:
        _known.clear()
    until = time.monotonic() + BELIEVED_SECONDS
    _known[digest] = _Known(found.agent, found.expires_at, until)
    return found.agent


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
