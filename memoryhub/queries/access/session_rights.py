"""Standings: what the holders of sessions may look at right now. Never writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.sessions.models import Session
from django.db.models import CharField, F, QuerySet, TextField, Value
from django.db.models.functions import Cast

from memoryhub.models.access.operators import Membership

#: Name, data, role, project, operator; the last three are empty of a session.
_Row = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An operator in a project, and the password that its sessions were made with."""

    project: UUID
    role: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    #: Stored data of the sessions that have not ended, by key.
    sessions: dict[str, str]
    #: By slug of the project and operator; who may not sign in is left out.
    members: dict[tuple[str, UUID], Member]


def list_standings(
    *,
    sessions: Collection[str],
    projects: Collection[str],
    operators: Collection[UUID],
    now: datetime,
) -> Standings:
    """Return what rights are left to these sessions and memberships.

    One query, however many.
    """
    rows = _alive(sessions, now).union(_members(projects, operators), all=True)
    found = Standings(sessions={}, members={})
    for name, data, role, project, operator in rows:
        if not operator:
            found.sessions[name] = data
            continue
        found.members[name, UUID(operator)] = Member(
            project=UUID(project), role=role, password=data
        )
    return found


def _alive(sessions: Collection[str], now: datetime) -> QuerySet[Session, _Row]:
    rows = Session.objects.filter(session_key__in=list(sessions), expire_date__gt=now)
    return rows.values_list(
        Cast("session_key", TextField()),
        Cast("session_data", TextField()),
        *[Value("", output_field=TextField())] * 3,
    )


def _members(
    projects: Collection[str], operators: Collection[UUID]
) -> QuerySet[Membership, _Row]:
    rows = Membership.objects.filter(
        project__slug__in=list(projects),
        operator_id__in=list(operators),
        operator__is_active=True,
    )
    return rows.values_list(
        Cast("project__slug", TextField()),
        Cast(F("operator__password"), TextField()),
        Cast("role", TextField()),
        # Text of an id by way of its own type, which differs between the engines.
        Cast(Cast("project_id", CharField()), TextField()),
        Cast(Cast("operator_id", CharField()), TextField()),
    )
