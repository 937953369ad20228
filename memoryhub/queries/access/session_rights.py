"""Current rights of the operators who hold sessions. Never writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.sessions.models import Session
from django.db.models import CharField, F, QuerySet, TextField, Value
from django.db.models.functions import Cast

from memoryhub.models.access.operators import Membership

#: Name, data, role, project, operator; a session's last three are empty.
_Row = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An operator's role in a project, and the hash of the operator's password."""

    project: UUID
    role: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRights:
    #: Stored data of unexpired sessions, by session key.
    sessions: dict[str, str]
    #: Active operators only, by the project's slug and the operator's id.
    members: dict[tuple[str, UUID], Member]


def get_session_rights(
    *,
    sessions: Collection[str],
    projects: Collection[str],
    operators: Collection[UUID],
    now: datetime,
) -> SessionRights:
    """Return the sessions and memberships among these that still give rights.

    One query, however many are asked for.
    """
    rows = _select_sessions(sessions, now).union(
        _select_members(projects, operators), all=True
    )
    found = SessionRights(sessions={}, members={})
    for name, data, role, project, operator in rows:
        if not operator:
            found.sessions[name] = data
            continue
        found.members[name, UUID(operator)] = Member(
            project=UUID(project), role=role, password=data
        )
    return found


def _select_sessions(
    sessions: Collection[str], now: datetime
) -> QuerySet[Session, _Row]:
    rows = Session.objects.filter(session_key__in=list(sessions), expire_date__gt=now)
    return rows.values_list(
        Cast("session_key", TextField()),
        Cast("session_data", TextField()),
        *[Value("", output_field=TextField())] * 3,
    )


def _select_members(
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
        # Cast an id to text through CharField: ids have other types on each engine.
        Cast(Cast("project_id", CharField()), TextField()),
        Cast(Cast("operator_id", CharField()), TextField()),
    )
