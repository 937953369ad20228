"""Agents, found by their API key, and the time of each key's last use."""

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
class KeyHolder:
    """Agent that holds an API key, and the instant the key expires."""

    agent: Agent
    expires_at: datetime | None


def find(key: str, *, now: datetime) -> KeyHolder | None:
    """Find the agent that holds this key; None if the key is not valid.

    One query, or none for a malformed key. Records the use of the key, rounded to the
    minute.
    """
    prefix = api_keys.parse_prefix(key)
    if prefix is None:
        return None
    row = _get_key_row(prefix)
    if not api_keys.is_valid_key(row, key, now=now) or row is None:
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
        default_ttl=projects.get_default_ttl(row.project),
        gone=row.subject is not None and row.subject.state in GONE,
    )
    return KeyHolder(agent=agent, expires_at=row.expires_at)


def _get_key_row(prefix: str) -> ApiKey | None:
    """Get the key's row with its project, subject and anonymous subject; one query."""
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
    """Queue an update of the key's last use, at most once a minute."""
    if row.last_used_at is not None and row.last_used_at >= minute:
        return

    # The minute begins before the creation time of a key made within that minute.
    used_at = max(minute, row.created_at)

    def write(key: UUID = row.id) -> None:
        ApiKey.objects.filter(id=key).update(last_used_at=used_at)

    # No caller waits for this update, and a full queue has more urgent work.
    with suppress(QueueFullError):
        journal.writer.put_work(write)
