"""Deletions: projects that are being deleted have their people handed in, bit by bit.

The eraser does the rest of each; what is left to do stands in the rows.
"""

from __future__ import annotations

from datetime import datetime

from memoryhub.models.projects import Project
from memoryhub.services.forget import project_deletions


def go_on(now: datetime) -> int:
    """One round of each that was begun; how many people were handed in, or ended."""
    rows = Project.objects.filter(state=Project.State.DELETING).order_by("id")
    return sum(project_deletions.advance(row) for row in rows)
