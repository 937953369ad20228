"""Home threads: where what is known of a subject is read. Never writes."""

from __future__ import annotations

from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread


def find_home(subject: Subject) -> Thread | None:
    """Return the subject's home thread, its subject with it; None without one."""
    rows = Thread.objects.select_related("subject", "project")
    return rows.filter(subject=subject, home=True, status=Thread.Status.OPEN).first()
