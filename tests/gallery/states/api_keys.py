from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from memoryhub.models.access.api_keys import ApiKey
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import NOW, OPEN, OWNER, PROJECT, Context


def key(**fields: Any) -> Context:
    """A row that is in no table."""
    known = {"id": UUID(int=8), "project": PROJECT, "prefix": "mh7f3a2c", "digest": b""}
    said = {"scopes": "memory:read memory:write", "created_at": NOW - timedelta(days=9)}
    row = ApiKey(**{**known, **said, **fields})
    return {"key": row, "now": NOW, "place": OWNER}


PATTERNS = (
    Pattern(
        template="inspector/access/api_keys/_row.html",
        states={
            "in use, for ever": key(last_used_at=NOW - timedelta(hours=1)),
            "never used, of one person, for a while": key(
                subject_id=OPEN.subject, expires_at=NOW + timedelta(days=90)
            ),
            "ended": key(expires_at=NOW - timedelta(days=1)),
            "revoked": key(revoked_at=NOW - timedelta(days=1)),
        },
        frame="api-keys",
    ),
)
