"""Deletions of projects that are killed on the way; runs in an instance."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from functools import partial
from typing import Any

from memoryhub.errors import ProjectDeletedError, SubjectErasedError
from memoryhub.journal import texts
from memoryhub.management import deleting
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import Event
from memoryhub.models.keys import DestroyedProjectKey, ProjectKey, SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.services.access import projects
from memoryhub.services.forget import ledgers, project_deletions
from memoryhub.services.people import subjects
from memoryhub.vault.proof import ledger
from tests.cast import factories
from tests.harness import killing

TEXT = "I would like seat 12A by the window, please, and a vegetarian meal."


def remember(slug: str) -> None:
    """Make a project with ann, and with records about nobody."""
    agent = factories.make_agent(projects.create(slug))
    factories.make_thread(agent, f"{slug}-ann", user_id="ann")
    factories.append(agent, f"{slug}-ann", TEXT)
    factories.append(agent, f"{slug}-nobody", TEXT)


def begin(slug: str) -> Project:
    project = Project.objects.get(slug=slug)
    return project_deletions.begin_deletion(project, confirmed=slug, reason="test")


def delete(slug: str) -> None:
    """Delete a project from begin to end; a repeat goes on."""
    project = deleting.follow(begin(slug), out=io.StringIO())
    assert project.state == Project.State.DELETED, deleting.render_progress(project)


def kill_everywhere(every: int) -> None:
    """Kill a deletion around every n-th of its commits and go on; print the outcome.

    Each deletion is of a project of its own.
    """
    told, ends = {}, {}
    for slug, end in killing.kills(remember, delete, every):
        ends[slug] = end
        if slug != killing.WHOLE:
            ends[f"{slug}-again"] = killing.in_child(partial(delete, slug))
        told[slug] = _told(slug)
    commits = ends.pop(killing.WHOLE)
    sys.stdout.write(json.dumps({"commits": commits, "ends": ends, "told": told}))


def tell(slug: str) -> None:
    """Print the remains of a project, and the proof of its deletion."""
    sys.stdout.write(json.dumps(_left(slug)))


def _told(slug: str) -> dict[str, Any]:
    """Read the remains in a fresh process, by rows and ledger alone."""
    told = killing.told_by_child(lambda: json.dumps(_left(slug)))
    return dict(json.loads(told))


def _left(slug: str) -> dict[str, Any]:
    project = Project.objects.get(slug=slug)
    people = Subject.objects.filter(project=project)
    lines = [line for line in ledger.iter_lines() if line.erasure == project.id]
    assert all(line.scope == ledgers.PROJECT for line in lines)
    told = AuditEntry.objects.filter(project=project.id).order_by("seq")
    threads = Thread.objects.filter(project=project)
    return {
        "state": project.state,
        "subjects": Counter(people.values_list("state", flat=True)),
        "threads": Counter(threads.values_list("status", flat=True)),
        "named": threads.exclude(name__startswith="~").count(),
        "left": sum(
            sum(erasure_counts.count_subject(row.id).values()) for row in people
        ),
        "erasures": Counter(
            Erasure.objects.filter(project=project).values_list("state", flat=True)
        ),
        # Without addenda, which name who had read shortly before.
        "receipts": Receipt.objects.filter(project=project, n=0).count(),
        "keys": SubjectKey.objects.using("keys").filter(project=project.id).count()
        + ProjectKey.objects.using("keys").filter(project=project.id).count(),
        "proofs": DestroyedProjectKey.objects.using("keys")
        .filter(project=project.id)
        .count(),
        "ledger": [str(line.kind) for line in lines],
        "audit": [
            word
            for word in told.values_list("action", flat=True)
            if word.startswith("project.dele")
        ],
    }


def try_to_read(slug: str) -> None:
    """Print how many messages of a project open, and whether ann is found there."""
    project = Project.objects.get(slug=slug)
    rows = Event.objects.filter(thread__project=project, payload__isnull=False)
    opened, closed = 0, 0
    for row in rows.select_related("thread__subject"):
        try:
            texts.open_payload(row.thread.subject, project.id, row)
            opened += 1
        except SubjectErasedError:
            closed += 1
    try:
        found = "ann" if subjects.find(project.id, "ann") else "nobody"
    except ProjectDeletedError as refusal:
        found = refusal.code
    sys.stdout.write(json.dumps({"opened": opened, "closed": closed, "found": found}))
