"""One export, in a process inside an instance."""

from __future__ import annotations

import json
import resource
import sys
import time

from benchmarks.hubs import PROJECT
from memoryhub.models.projects import Project
from memoryhub.services.export import exports
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keyring


def measure() -> None:
    """Export the project's thread; print time and memory."""
    keyring.prepare(empty=False)
    project = Project.objects.get(slug=PROJECT)
    began = time.process_time()
    export = exports.begin_export(subjects.get_anonymous(project.id), actor="command")
    for _ in export.stream():
        pass
    told = {
        "events": export.cut.events,
        "cpu_seconds": time.process_time() - began,
        "bytes": export.sent,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    sys.stdout.write(json.dumps(told) + "\n")
