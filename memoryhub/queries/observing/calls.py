"""Observers' calls that are with the model now: each has a lease of its own.

A lease ends by itself, so a process that dies leaves no call in flight behind.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from memoryhub.kernel.state.observing import ObserverRole
from memoryhub.models.server.clock import clock
from memoryhub.models.server.leases import Lease

_PREFIXES: Final[dict[ObserverRole, str]] = {"observer": "obs:", "reflector": "ref:"}


def build_lease_name(role: ObserverRole, thread: UUID) -> str:
    """Build the name of the lease of a call about a thread."""
    return f"{_PREFIXES[role]}{thread}"


def find_call(thread: UUID) -> ObserverRole | None:
    """Find which role's call about a thread is with the model now. One query."""
    names = {build_lease_name(role, thread): role for role in _PREFIXES}
    held = Lease.objects.filter(name__in=[*names], expires_at__gt=clock.now())
    name = held.values_list("name", flat=True).first()
    return None if name is None else names[name]


def list_leases() -> QuerySet[Lease]:
    """Return the leases of all calls, ended ones of dead processes included."""
    begins = [Q(name__startswith=prefix) for prefix in _PREFIXES.values()]
    return Lease.objects.filter(begins[0] | begins[1])
