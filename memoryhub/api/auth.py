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
    agent = await _agent(request)
    if agent is None:
        limits.take_anonymous(request.META.get("REMOTE_ADDR", ""))
        raise UnauthorizedError
    limits.take_request(agent)
    if needs not in agent.scopes:
        raise ScopeError(needs=needs)
    return agent


async def believed(request: HttpRequest) -> bool:
    """Whether the key of a stream that is open still holds."""
    return await _agent(request) is not None


def forget() -> None:
    """Ask the database again for every key."""
    _known.clear()


async def _agent(request: HttpRequest) -> Agent | None:
    bearer = _BEARER.fullmatch(request.META.get("HTTP_AUTHORIZATION", ""))
    if bearer is None:
        return None
    key = bearer[1]
    digest = hashlib.sha256(key.encode()).digest()
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
