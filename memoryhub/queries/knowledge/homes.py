"""Home threads, which hold a subject's blocks and facts. Never writes."""

from __future__ import annotations

from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread


def find_home(subject: Subject) -> Thread | None:
    """Return the home thread, with its subject and project; None without one."""
    rows = Thread.objects.select_related("subject", "project")
    return rows.filter(subject=subject, home=True, status=Thread.Status.OPEN).first()
