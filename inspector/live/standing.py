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
from inspector.live.protocol import LiveCloseCode
from inspector.web import read_audit
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.server.clock import clock
from memoryhub.queries.access.session_rights import Member, get_session_rights
from memoryhub.services.access import operators


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketBadge:
    """Credentials with which a socket was admitted; checked while it is open."""

    session: str
    operator: UUID
    #: The project's slug.
    project: str
    #: The socket was opened on the machine that serves it.
    near: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeRights:
    """The present rights of a badge; `close` is the reason when there are none."""

    close: LiveCloseCode | None = None
    project: UUID | None = None
    officer: bool = False
    #: Purpose of reading, as chosen at sign-in.
    purpose: str = read_audit.DEFAULT_PURPOSE


def list_rights(badges: Collection[SocketBadge]) -> dict[SocketBadge, BadgeRights]:
    """List the present rights of each badge. One query for any number of badges."""
    now = clock.now()
    found = get_session_rights(
        sessions={badge.session for badge in badges},
        projects={badge.project for badge in badges},
        operators={badge.operator for badge in badges},
        now=now,
    )
    decode = SessionStore().decode
    sessions = {key: decode(data) for key, data in found.sessions.items()}
    return {
        badge: _build_rights(
            badge,
            sessions.get(badge.session, {}),
            found.members.get((badge.project, badge.operator)),
            now,
        )
        for badge in badges
    }


def _build_rights(
    badge: SocketBadge, session: Mapping[str, Any], member: Member | None, now: datetime
) -> BadgeRights:
    ours = session.get(SESSION_KEY) == str(badge.operator)
    if not ours or not _is_alive(session, near=badge.near, now=now):
        return BadgeRights(close=LiveCloseCode.SIGNED_OUT)
    if member is None:
        return BadgeRights(close=LiveCloseCode.FORBIDDEN)
    # A new password ends the sessions of the old password, as it does for pages.
    current = Operator(password=member.password).get_session_auth_hash()
    if not constant_time_compare(session.get(HASH_SESSION_KEY, ""), current):
        return BadgeRights(close=LiveCloseCode.SIGNED_OUT)
    officer = operators.is_role_at_least(member.role, Membership.Role.OFFICER)
    purpose = read_audit.get_purpose(session)
    return BadgeRights(project=member.project, officer=officer, purpose=purpose)


def _is_alive(session: Mapping[str, Any], *, near: bool, now: datetime) -> bool:
    """Tell whether a session is neither old nor idle. Open sockets are no activity."""
    idle = timedelta(hours=access.IDLE_HOURS)
    if session.get(access.POWERFUL) and not near:
        idle = timedelta(minutes=access.IDLE_MINUTES_OFF_LOOPBACK)
    old = timedelta(hours=access.SESSION_HOURS)
    signed_in, seen = (
        _read_time(session, key) for key in (access.SIGNED_IN, access.SEEN)
    )
    return now - signed_in <= old and now - seen <= idle


def _read_time(session: Mapping[str, Any], key: str) -> datetime:
    text = session.get(key)
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)
