"""Names of the actors of a project, for people to read. Never writes.

A journal names an actor by an id: a key's prefix or an operator's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from uuid import UUID

from django.db.models import CharField, Value
from django.db.models.functions import Cast

from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.operators import Operator

#: Most keys and operators whose names are read, together.
MAX_ACTORS = 5_000
_AGENT, _OPERATOR = "agent", "operator"


class ActorNames:
    """Names of actors by id: `agent:Ab12Cd34`, `operator:<uuid>`.

    Includes revoked keys, and keys bound to an erased subject. One query when the first
    name is looked up, none before and none after.
    """

    def __init__(self, project: UUID) -> None:
        self._project = project

    def get(self, actor: str) -> str:
        """Return the actor's name; empty if the actor has none."""
        return self._names.get(actor, "")

    @cached_property
    def _names(self) -> Mapping[str, str]:
        keys = ApiKey.objects.filter(project=self._project).exclude(name="")
        named = keys.values_list(Value(_AGENT), "prefix", "name")
        # All operators of the instance: one who left the project may have acted in it.
        people = Operator.objects.values_list(
            Value(_OPERATOR), Cast("id", CharField()), "username"
        )
        found = named.union(people, all=True)[:MAX_ACTORS]
        return {f"{kind}:{_format_ref(kind, ref)}": name for kind, ref, name in found}


def _format_ref(kind: str, ref: str) -> str:
    """Write an id as actors have it: SQLite stores ids of operators without dashes."""
    return str(UUID(ref)) if kind == _OPERATOR else ref
