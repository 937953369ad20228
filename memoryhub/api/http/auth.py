"""Authentication of agents: an API key in `Authorization`, and nothing else."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.http import HttpRequest

from memoryhub.api.http import limits
from memoryhub.errors import (
    InvalidError,
    ScopeError,
    SubjectErasedError,
    UnauthorizedError,
)
from memoryhub.kernel.text import user_ids
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES
from memoryhub.models.server.clock import clock
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import agents
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.vault.registry.lru import Lru

READ: Final = "memory:read"
WRITE: Final = "memory:write"
EXPORT: Final = "subject:export"
FORGET: Final = "subject:forget"
#: Scope of settings of a whole project.
ADMIN: Final = "admin"
#: Need of routes that show a subject: for agents, exporters and erasers.
LOOK: Final = "memory:read or subject:*"
#: Need of routes that any valid key may use.
ANY: Final = "any key"

#: Scopes that admit to a route whose need is not itself a scope.
_ADMITTING: Final = {
    LOOK: frozenset({READ, EXPORT, FORGET}),
    ANY: frozenset({*MEMORY_SCOPES, *SUBJECT_SCOPES}),
}

#: Header that confines a request to a person, by user id; see decision 102.
PERSON_HEADER: Final = "MemoryHub-Person"
#: The header as ASGI has it.
PERSON_HEADER_LOWER: Final = PERSON_HEADER.lower().encode()
#: Stands for the subject of a person who is not known yet: no row has this id.
_NO_SUBJECT: Final = UUID(int=0)
#: Methods that can begin a thread, and with it a person.
_BEGINNING: Final = frozenset({"POST", "PUT"})

#: Seconds for which a key is trusted before the database is asked again.
BELIEVED_SECONDS = 1.0
_KEPT = 10_000
_BEARER = re.compile(r"bearer ([\x21-\x7e]{1,256})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _KnownKey:
    agent: Agent
    expires_at: datetime | None
    until: float


#: Known keys by their SHA-256; the keys themselves are not kept.
_kept_keys: Lru[bytes, _KnownKey] = Lru(_KEPT, name="API keys in use")


def get_caller(request: HttpRequest) -> Agent:
    """Return the agent that sent this request; set after admission."""
    agent = request.auth  # type: ignore[attr-defined]  # Ninja's name for it
    assert isinstance(agent, Agent)
    return agent


async def admit(request: HttpRequest, *, needs: str) -> Agent:
    """Return the agent behind a request, confined to the person that a header names.

    Raises what `greet`, `require` and `confine` raise. The header costs a query, and
    two for a person who is not known.
    """
    clock.require_true()
    agent = await _require_agent(
        find_sent_key(request), request.META.get("REMOTE_ADDR", "")
    )
    # Set before the checks below, so that a refusal is counted for this agent.
    request.auth = agent  # type: ignore[attr-defined]  # Ninja's name for it
    limits.take_request(agent)
    require(agent, needs)
    sent = request.META.get("HTTP_MEMORYHUB_PERSON")
    if sent is not None:
        agent = await confine(agent, decode_person(sent.encode("latin-1")))
        request.auth = agent  # type: ignore[attr-defined]  # as above
    return agent


async def greet(key: str | None, *, address: str) -> Agent:
    """Return the holder of a key, counted as a request.

    Raises UnauthorizedError, RateError. Raises ClockSkewError before all else, since
    keys expire by the clock.
    """
    clock.require_true()
    agent = await _require_agent(key, address)
    limits.take_request(agent)
    return agent


def require(agent: Agent, needs: str) -> None:
    """Raise ScopeError when the agent's key lacks what a route needs.

    Raises SubjectErasedError for a key bound to an erased subject on routes of memory;
    the erasure and its receipt can still be read.
    """
    if get_admitting_scopes(needs).isdisjoint(agent.scopes):
        raise ScopeError(needs=needs)
    if agent.gone and needs in (READ, WRITE):
        raise SubjectErasedError


def get_admitting_scopes(needs: str) -> frozenset[str]:
    """Return the scopes of which a key must have one."""
    return _ADMITTING.get(needs) or frozenset({needs})


def decode_person(value: bytes | None) -> str | None:
    """Return the user id in a header, which may be empty; None without the header.

    Raises InvalidError for bytes that are no text: replaced, two of them would be one.
    """
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise InvalidError(loc=PERSON_HEADER, allowed=user_ids.RULE) from None


async def confine(agent: Agent, person: str | None) -> Agent:
    """Return the agent as if its key were bound to the person that a header names.

    The agent of a person who is not known finds nothing. One query, two for an unknown
    person, none for None. Raises InvalidError, SubjectErasedError.
    """
    if person is None:
        return agent
    find = partial(subjects.find, agent.project, person, bound=agent.bound)
    try:
        found = await read(find)
    except InvalidError:
        raise InvalidError(loc=PERSON_HEADER, allowed=user_ids.RULE) from None
    if found is None:
        unknown = person if agent.bound is None else None
        return replace(agent, bound=_NO_SUBJECT, unknown_person=unknown)
    return replace(agent, bound=found.id)


def is_beginning(request: HttpRequest, *, needs: str) -> bool:
    """Return whether a request names an unknown person whom its write may make."""
    writes = needs == WRITE and request.method in _BEGINNING
    return writes and get_caller(request).unknown_person is not None


async def begin_person(request: HttpRequest) -> None:
    """Prepare the unknown person of a request: all but the row, which a write inserts.

    The row comes with the person's first thread, so that a refusal makes nobody. Call
    it once the body is checked: it writes a key, which is swept if nobody is made.
    """
    agent = get_caller(request)
    assert agent.unknown_person is not None
    new = await read(subjects.prepare_subject, agent.project, agent.unknown_person)
    insert = partial(subjects.insert_with_thread, new)
    begun = replace(agent, bound=new.id, insert_subject=insert)
    request.auth = begun  # type: ignore[attr-defined]  # as above


async def find_begun_person(request: HttpRequest) -> None:
    """Confine a request to its person, whom another request has made meanwhile."""
    agent = get_caller(request)
    unbound = replace(agent, bound=None, unknown_person=None, insert_subject=None)
    found = await confine(unbound, agent.unknown_person)
    request.auth = found  # type: ignore[attr-defined]  # as above


async def find_holder(key: str | None) -> Agent | None:
    """Return the holder of an open stream's or socket's key; None once the key is void.

    Raises ClockSkewError.
    """
    clock.require_true()
    return None if key is None else await _find_agent(key)


def forget() -> None:
    """Drop all cached keys, so that the database is asked again."""
    _kept_keys.clear()


def find_sent_key(request: HttpRequest) -> str | None:
    """Return the key of a request, valid or not."""
    return parse_bearer(request.META.get("HTTP_AUTHORIZATION", ""))


def parse_bearer(authorization: str) -> str | None:
    """Return the key in the value of an Authorization header, or None."""
    found = _BEARER.fullmatch(authorization)
    return found[1] if found else None


async def _require_agent(key: str | None, address: str) -> Agent:
    """Return the holder of the key. Raises UnauthorizedError, RateError.

    A key that is not cached is not looked up in the database while its address has used
    up its guesses.
    """
    agent = None
    if key is not None:
        if _kept_keys.get(_hash_key(key)) is None:
            limits.require_anonymous(address)
        agent = await _find_agent(key)
    if agent is None:
        limits.take_anonymous(address)
        raise UnauthorizedError
    return agent


async def _find_agent(key: str) -> Agent | None:
    digest = _hash_key(key)
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


def _hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
