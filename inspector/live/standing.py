from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils.crypto import constant_time_compare

from inspector.access import access
from inspector.live.protocol import Close
from inspector.web import read_audit
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.server.clock import clock
from memoryhub.queries.access.session_rights import Member, list_standings
from memoryhub.services.access import operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """Hold by what a socket was let in; it is checked for as long as that is open."""

    session: str
    operator: UUID
    #: The project's slug.
    project: str
    #: Opened on the machine that serves it.
    near: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Hold what a badge is good for now; `close` once it is good for nothing."""

    close: Close | None = None
    project: UUID | None = None
    officer: bool = False
    #: Why its operator looks, as the sign-in asked.
    purpose: str = read_audit.DEFAULT_PURPOSE


def list_standing(badges: Collection[Badge]) -> dict[Badge, Standing]:
    """List what each badge is good for now. One query, however many there are."""
    now = clock.now()
    found = list_standings(
        sessions={badge.session for badge in badges},
        projects={badge.project for badge in badges},
        operators={badge.operator for badge in badges},
        now=now,
    )
    decode = SessionStore().decode
    sessions = {key: decode(data) for key, data in found.sessions.items()}
    return {
        badge: _standing(
            badge,
            sessions.get(badge.session, {}),
            found.members.get((badge.project, badge.operator)),
            now,
        )
        for badge in badges
    }


def _standing(
    badge: Badge, session: Mapping[str, Any], member: Member | None, now: datetime
) -> Standing:
    ours = session.get(SESSION_KEY) == str(badge.operator)
    if not ours or not _alive(session, near=badge.near, now=now):
        return Standing(close=Close.SIGNED_OUT)
    if member is None:
        return Standing(close=Close.FORBIDDEN)
    # A new password ends the sessions of the old one, as it does for pages.
    current = Operator(password=member.password).get_session_auth_hash()
    if not constant_time_compare(session.get(HASH_SESSION_KEY, ""), current):
        return Standing(close=Close.SIGNED_OUT)
    officer = operators.allows(member.role, Membership.Role.OFFICER)
    purpose = read_audit.purpose_of(session)
    return Standing(project=member.project, officer=officer, purpose=purpose)


def _alive(session: Mapping[str, Any], *, near: bool, now: datetime) -> bool:
    """Tell as for pages: neither old nor idle. An open socket is no activity."""
    idle = timedelta(hours=access.IDLE_HOURS)
    if session.get(access.POWERFUL) and not near:
        idle = timedelta(minutes=access.IDLE_MINUTES_OFF_LOOPBACK)
    old = timedelta(hours=access.SESSION_HOURS)
    signed_in, seen = (_time(session, key) for key in (access.SIGNED_IN, access.SEEN))
    return now - signed_in <= old and now - seen <= idle


def _time(session: Mapping[str, Any], key: str) -> datetime:
    text = session.get(key)
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)
