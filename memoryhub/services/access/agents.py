"""Agents: who holds a key, found by the key itself, and when it was last used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery

from memoryhub import journal
from memoryhub.errors import QueueFullError
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.subjects import Subject
from memoryhub.services.access import api_keys, projects
from memoryhub.services.access.api_keys import Agent

GONE = (Subject.State.ERASING, Subject.State.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The holder of a key, and until when the key holds."""

    agent: Agent
    expires_at: datetime | None


def find(key: str, *, now: datetime) -> Found | None:
    """Find the holder of this key; None whatever is wrong with it.

    One query, or none. The use of the key is kept, by the minute.
    """
    prefix = api_keys.well_formed(key)
    if prefix is None:
        return None
    row = _row(prefix)
    if not api_keys.matches(row, key, now=now) or row is None:
        return None
    _note_use(row, now.replace(second=0, microsecond=0))
    agent = Agent(
        key=row.id,
        prefix=row.prefix,
        project=row.project_id,
        slug=row.project.slug,
        scopes=frozenset(row.scopes.split()),
        bound=row.subject_id,
        anonymous=row.anonymous_subject,  # type: ignore[attr-defined]  # annotated
        create_on_write=row.project.create_on_write,
        default_ttl=projects.default_ttl(row.project),
        gone=row.subject is not None and row.subject.state in GONE,
    )
    return Found(agent=agent, expires_at=row.expires_at)


def _row(prefix: str) -> ApiKey | None:
    anonymous = Subject.objects.filter(
        ~Q(state__in=GONE),
        project_id=OuterRef("project_id"),
        anonymous=True,
    )
    rows = ApiKey.objects.select_related("project", "subject").annotate(
        anonymous_subject=Subquery(anonymous.values("id")[:1])
    )
    return rows.filter(prefix=prefix).first()


def _note_use(row: ApiKey, minute: datetime) -> None:
    if row.last_used_at is not None and row.last_used_at >= minute:
        return

    # The minute in which a key was made began before it.
    used_at = max(minute, row.created_at)

    def write(key: UUID = row.id) -> None:
        ApiKey.objects.filter(id=key).update(last_used_at=used_at)

    # Nobody waits for it, and a full queue has better things to do.
    with suppress(QueueFullError):
        journal.writer.put_work(write)
