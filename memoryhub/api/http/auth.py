"""Who asks: an API key in `Authorization`, and nothing else."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.http import HttpRequest

from memoryhub.api.http import limits
from memoryhub.errors import ScopeError, SubjectErasedError, UnauthorizedError
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES
from memoryhub.models.server.clock import clock
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import agents
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.registry.lru import Lru

READ: Final = "memory:read"
WRITE: Final = "memory:write"
EXPORT: Final = "subject:export"
FORGET: Final = "subject:forget"
#: What a whole project is set to.
ADMIN: Final = "admin"
#: Looking at what is known of a subject: for agents, and for who exports or erases.
LOOK: Final = "memory:read or subject:*"
#: Any key that holds.
ANY: Final = "any key"

#: What admits to a route whose need is no scope of its own.
_ADMITTING: Final = {
    LOOK: frozenset({READ, EXPORT, FORGET}),
    ANY: frozenset({*MEMORY_SCOPES, *SUBJECT_SCOPES}),
}

#: How long a key is believed before the database is asked again.
BELIEVED_SECONDS = 1.0
_KEPT = 10_000
_BEARER = re.compile(r"bearer ([\x21-\x7e]{1,256})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _KnownKey:
    agent: Agent
    expires_at: datetime | None
    until: float


#: By SHA-256 of the key: the keys themselves are not kept.
_kept_keys: Lru[bytes, _KnownKey] = Lru(_KEPT, name="API keys in use")


def caller(request: HttpRequest) -> Agent:
    """Return the agent that sent this request; set once it was admitted."""
    agent = request.auth  # type: ignore[attr-defined]  # Ninja's name for it
    assert isinstance(agent, Agent)
    return agent


async def admit(request: HttpRequest, *, needs: str) -> Agent:
    """Return the agent behind a request. Raises what `greet` and `require` do."""
    clock.require_true()
    agent = await _admitted(sent_key(request), request.META.get("REMOTE_ADDR", ""))
    # From here on it is known whom a refusal is counted to.
    request.auth = agent  # type: ignore[attr-defined]  # Ninja's name for it
    limits.take_request(agent)
    require(agent, needs)
    return agent


async def greet(key: str | None, *, address: str) -> Agent:
    """Return the holder of a key, counted as a request.

    Raises UnauthorizedError, RateError. Or ClockSkewError, before all: keys end at a
    time.
    """
    clock.require_true()
    agent = await _admitted(key, address)
    limits.take_request(agent)
    return agent


def require(agent: Agent, needs: str) -> None:
    """Raise ScopeError when the agent's key lacks what a route needs.

    Or SubjectErasedError for a key bound to a subject that is gone, wherever memory is
    asked for; the erasure and its receipt can still be looked at.
    """
    if admitting(needs).isdisjoint(agent.scopes):
        raise ScopeError(needs=needs)
    if agent.gone and needs in (READ, WRITE):
        raise SubjectErasedError


def admitting(needs: str) -> frozenset[str]:
    """Return the scopes of which a key must have one."""
    return _ADMITTING.get(needs) or frozenset({needs})


async def believed(key: str | None) -> Agent | None:
    """Return the holder of an open stream's or socket's key; None once it is void.

    Raises ClockSkewError.
    """
    clock.require_true()
    return None if key is None else await _agent(key)


def forget() -> None:
    """Ask the database again for every key."""
    _kept_keys.clear()


def sent_key(request: HttpRequest) -> str | None:
    """Return the key of a request, whatever it is worth."""
    return bearer(request.META.get("HTTP_AUTHORIZATION", ""))


def bearer(authorization: str) -> str | None:
    """Return the key in the value of an Authorization header."""
    found = _BEARER.fullmatch(authorization)
    return found[1] if found else None


async def _admitted(key: str | None, address: str) -> Agent:
    """Who holds the key. Raises UnauthorizedError, RateError.

    The database is not asked for a key that was never right here while its address has
    used up its guesses.
    """
    agent = None
    if key is not None:
        if _kept_keys.get(_digest(key)) is None:
            limits.require_anonymous(address)
        agent = await _agent(key)
    if agent is None:
        limits.take_anonymous(address)
        raise UnauthorizedError
    return agent


async def _agent(key: str) -> Agent | None:
    digest = _digest(key)
    kept = _kept_keys.get(digest)
    if kept is not None and kept.until > time.monotonic():
        expired = kept.expires_at is not None and kept.expires_at <= clock.now()
        return None if expired else kept.agent
    found = await read(agents.find, key, now=clock.now())
    _kept_keys.pop(digest)
    if found is None:
        return None
    until = time.monotonic() + BELIEVED_SECONDS
    _kept_keys.put(digest, _KnownKey(found.agent, found.expires_at, until))
    return found.agent


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
