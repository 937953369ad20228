"""Searches of contents that have an address, for a reload and for other members.

An address has a handle, never words: words may name a person, and addresses land in
logs. The words stay in this process's memory for an hour. See decision 95.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from inspector.web.visitors import Visitor
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import erasure_views
from memoryhub.vault.registry.lru import Lru

#: Parameter of an address that has the handle.
PARAMETER = "search"
#: Fields of the search form that an address stands for.
FIELDS = ("q", "order", "scope", "thread", "at_seq")
SECONDS = 3_600

#: Key of the handles, so that nobody computes the handle of words.
_SECRET = os.urandom(32)


class StoredSearch(NamedTuple):
    """Fields of a search form, and when the search was stored."""

    fields: Mapping[str, str]
    at: datetime


_stored: Lru[tuple[UUID, str], StoredSearch] = Lru(
    1_000, seconds=SECONDS, name="searches with an address"
)


def store_search(visitor: Visitor, sent: Mapping[str, str]) -> str:
    """Store a search for the project's members; return the handle of these fields."""
    fields = {name: sent[name] for name in FIELDS if sent.get(name)}
    project = visitor.project.id
    text = json.dumps([str(project), *sorted(fields.items())])
    digest = blake2b(text.encode(errors="surrogatepass"), key=_SECRET, digest_size=16)
    handle = digest.hexdigest()
    found = StoredSearch(MappingProxyType(fields), clock.now())
    _stored.put((project, handle), found)
    return handle


def find_search(visitor: Visitor, handle: str) -> Mapping[str, str] | None:
    """Find the fields of a search that this process stored within the last hour.

    One query. None too if an erasure of the project went on since: the words may name
    whoever was erased.
    """
    project = visitor.project.id
    if (found := _stored.get((project, handle))) is None:
        return None
    if erasure_views.has_erased_since(project, found.at):
        _stored.drop(lambda key, each: key[0] == project and each.at <= found.at)
        return None
    return found.fields
