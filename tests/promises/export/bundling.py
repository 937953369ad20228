"""Exports and imports of bundles, inside an instance of their own; run by the tests."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.management import execute_from_command_line

from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.server.leases import Lease
from memoryhub.models.threads import Thread
from memoryhub.queries.export.bundle_files import ZipArchive
from memoryhub.services.access import projects
from memoryhub.services.export import exports
from memoryhub.services.people import subjects
from memoryhub.workers import sweeping
from tests.cast import bundled, factories
from tests.harness import killing

SLOTS = 200
#: Of one thread of a large life.
LONG = 1_000


def live_in_project(more: int = 0) -> None:
    """Live ann's life, in a project acme, and then so many events more."""
    agent = factories.make_agent(projects.create("acme"))
    bundled.live_in_threads(agent)
    for begin in range(0, more, SLOTS):
        name = f"long-{begin // LONG}"
        if begin % LONG == 0:
            factories.make_thread(agent, name, user_id="ann")
        texts = (f"message {begin + n}" for n in range(SLOTS))
        factories.append(agent, name, *texts)


def kill_export(path: str) -> None:
    """Kill an export of ann in its middle; print its end and the places held."""
    end = killing.in_child(partial(_die_exporting, path))
    told = {"end": end, "places": Lease.objects.filter(name__contains="export").count()}
    sys.stdout.write(json.dumps(told))


def _die_exporting(path: str) -> None:
    add, added = ZipArchive.add, []

    def dying(archive: ZipArchive, *words: Any, **options: Any) -> Any:
        added.append(words)
        if len(added) > 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return add(archive, *words, **options)

    ZipArchive.add = dying  # type: ignore[method-assign, assignment]  # to die
    sys.stdin = io.StringIO("ann\n")
    execute_from_command_line(["manage.py", "export", "acme", "-o", path, "--quiet"])


def measure(events: int) -> None:
    """Export a thread of so many events; print the peak memory."""
    project = projects.create(f"p{events}")
    agent = factories.make_agent(project)
    factories.make_thread(agent, "t-1", user_id="ann", max_slots=1_000_000)
    for begin in range(0, events, SLOTS):
        texts = (f"message {begin + n} " * 20 for n in range(SLOTS))
        factories.append(agent, "t-1", *texts)
    # In a process of its own, which has made nothing of all this.
    read = partial(_exported, project)
    assert killing.in_child(read) == 0


def _exported(project: Project) -> None:
    ann = subjects.find_or_create(project.id, "ann")
    export = exports.begin_export(ann, actor="command")
    for _ in export.stream():
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(json.dumps([peak, export.cut.events]))
    sys.stdout.flush()


def kill_everywhere(path: str, every: int) -> None:
    """Kill an import at every n-th of its commits; print the remains, and a repeat's.

    `seen` are threads that show, `left` those that do not and stay after the sweep.
    """
    told = []
    for slug, end in killing.kills(projects.create, partial(_import, path), every):
        if slug != killing.WHOLE:
            seen = killing.in_child(partial(_count_threads, slug))
            left = killing.in_child(partial(_swept, slug))
            again = killing.in_child(partial(_import, path, slug))
            told.append({"end": end, "seen": seen, "left": left, "again": again})
    sys.stdout.write(json.dumps(told))


def _import(path: str, slug: str) -> int:
    words = ["manage.py", "import", path, "--project", slug, "--format", "bundle"]
    try:
        execute_from_command_line([*words, "--quiet"])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _count_threads(slug: str) -> int:
    return Thread.objects.filter_visible(Project.objects.get(slug=slug)).count()


def _swept(slug: str) -> int:
    sweeping.delete_imports(
        clock.now() + sweeping.ORPHANED_AFTER + timedelta(seconds=1)
    )
    rows = Thread.objects.filter(project__slug=slug, status="importing")
    return rows.count()
