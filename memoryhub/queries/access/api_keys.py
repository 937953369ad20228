"""API keys of a project, without their secrets. Never writes."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from memoryhub.errors import NotFoundError
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.projects import Project


def get_key(project: Project, prefix: str) -> ApiKey:
    """Return a key that is not revoked, with its project and subject. One query.

    Raises NotFoundError.
    """
    rows = ApiKey.objects.select_related("project", "subject")
    found = rows.filter(project=project, prefix=prefix, revoked_at=None).first()
    if found is None:
        raise NotFoundError
    return found


def find_writing_key(project: Project, *, now: datetime) -> ApiKey | None:
    """Find the newest key with which an agent may write now. One query."""
    alive = Q(expires_at=None) | Q(expires_at__gt=now)
    rows = ApiKey.objects.filter(alive, project=project, revoked_at=None)
    writing = rows.filter(scopes__contains="memory:write")
    return writing.order_by("-created_at").first()


def list_keys(project: Project, *, limit: int) -> list[ApiKey]:
    """List keys, newest first, including revoked and expired keys. One query."""
    rows = ApiKey.objects.filter(project=project).order_by("-created_at")
    return list(rows[:limit])
