"""Keys that expire beside workers in other processes."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta

from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access import projects
from tests.cast.factories import make_agent, make_project
from tests.oracles.memory_acts import lasting, new_key, set_keys
from tests.promises.journal.appender import tell


def make(threads: int, keys: int) -> None:
    """Make keys that live for a second, whose values have no grace."""
    project = make_project("acme")
    projects.set_lifetimes(project, default_ttl_seconds=None, grace_seconds=0)
    agent = make_agent(project)
    names = [f"k{n}" for n in range(keys)]
    for number in range(threads):
        set_keys(
            agent,
            *(new_key(name, "v", lasting(timedelta(seconds=1))) for name in names),
            thread=f"t-{number}",
        )


def watch(seconds: float) -> None:
    """Print the state once no key is due any more, or when the time is over."""
    pause = threading.Event()
    end = time.monotonic() + seconds
    while time.monotonic() < end and (
        Key.objects.exists() or DueValue.objects.exists()
    ):
        pause.wait(0.05)
    values = Event.objects.filter(type="key.set")
    whole = [verify(each) is None for each in Thread.objects.select_related("subject")]
    figures = {
        "rows": Key.objects.count() + DueValue.objects.count(),
        "kept": values.filter(payload__isnull=False).count(),
        "erased": values.filter(erased_by__isnull=False).count(),
        "whole": all(whole),
    }
    tell(json.dumps(figures))
