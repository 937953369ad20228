"""Actors: what those are called who did something in a project. Never writes.

A journal names them by ids: a key's prefix, an operator's id. Names are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from uuid import UUID

from django.db.models import CharField, Value
from django.db.models.functions import Cast

from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.operators import Operator

#: Keys and operators that are looked at, together.
MOST = 5_000
_AGENT, _OPERATOR = "agent", "operator"


class ActorNames:
    """What actors are called, by their ids: `agent:Ab12Cd34`, `operator:<uuid>`.

    Keys that were revoked or are bound to somebody who is gone are in it as well. One
    query when the first is looked up, none before and none after.
    """

    def __init__(self, project: UUID) -> None:
        self._project = project

    def get(self, actor: str) -> str:
        """Return the actor's name; nothing if there is none."""
        return self._names.get(actor, "")

    @cached_property
    def _names(self) -> Mapping[str, str]:
        keys = ApiKey.objects.filter(project=self._project).exclude(name="")
        named = keys.values_list(Value(_AGENT), "prefix", "name")
        # Of the whole instance: who has left a project did what they did in it.
        people = Operator.objects.values_list(
            Value(_OPERATOR), Cast("id", CharField()), "username"
        )
        found = named.union(people, all=True)[:MOST]
        return {f"{kind}:{_ref(kind, ref)}": name for kind, ref, name in found}


def _ref(kind: str, ref: str) -> str:
    """Word an id as actors do: SQLite keeps ids of operators without dashes."""
    return str(UUID(ref)) if kind == _OPERATOR else ref
