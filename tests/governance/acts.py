"""Acts of operators, in a process of the instance."""

from __future__ import annotations

import json
import sys

from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys, operators, projects
from memoryhub.services.people import subjects
from memoryhub.services.threads import operator_threads
from tests.promises.journal.appender import tell


def make_keys(*slugs: str) -> None:
    """Make these projects, then a key for each line: project, scopes, subject."""
    made = {slug: projects.create(slug) for slug in slugs}
    for line in sys.stdin:
        slug, scopes, user = json.loads(line)
        project = made[slug]
        subject = subjects.find_or_create(project.id, user) if user else None
        tell(api_keys.create(project, scopes=scopes, subject=subject)[1])


def close(project: str, thread: str) -> None:
    row = Thread.objects.select_related("subject").get(
        project__slug=project, name=thread
    )
    actor = f"operator:{operators.ensure_default().id}"
    operator_threads.close(row, actor=actor, reason="completed")


def consolidate(project: str) -> None:
    projects.set_consolidation(Project.objects.get(slug=project), auto=True)
