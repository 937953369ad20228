"""Deletions: subjects of projects under deletion are handed to the eraser in batches.

The eraser erases each subject. The rows show what is left to do.
"""

from __future__ import annotations

from datetime import datetime

from memoryhub.models.projects import Project
from memoryhub.services.forget import project_deletions


def advance_all(now: datetime) -> int:
    """Advance each deletion by one round; return the number of steps."""
    rows = Project.objects.filter(state=Project.State.DELETING).order_by("id")
    return sum(project_deletions.advance_deletion(row) for row in rows)
