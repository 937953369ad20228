"""Observing in processes of an instance; outcomes are printed as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management import execute_from_command_line

from memoryhub.kernel.observing import formulas
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers
from memoryhub.queries.replay.states import load_state
from memoryhub.services.observing import asking
from memoryhub.services.threads import slots
from memoryhub.workers import leases, observing
from tests.cast.factories import make_agent, make_project, make_slot, make_thread, run
from tests.promises.journal.appender import tell

QUICK = timedelta(seconds=1)
SETTINGS: dict[str, Any] = {
    "observe": True,
    "budget_tokens": 24_800,
    "reserved_tokens": 800,
}


def live_in_threads(threads: int, messages: int) -> None:
    """Make so many threads of so many numbered messages."""
    agent = make_agent(make_project("acme"))
    for number in range(threads):
        name = f"t-{number}"
        make_thread(agent, name, **SETTINGS)
        said = [
            make_slot(f"#{number}# {index} " + "and so on " * 40, role="user")
            for index in range(messages)
        ]
        run(slots.append(agent=agent, thread=name, slots=said))


def work(*words: str) -> None:
    """Print a command that does background work with a second in place of a minute.

    A lease ends sooner than the slowest answer comes: so both processes ask the same.
    """
    leases.LEASE = QUICK
    observing.ThreadObserver.poll_seconds = 0.2
    vars(asking)["FIRST"] = 1
    execute_from_command_line(["manage.py", *words])


def _threads() -> Iterator[Thread]:
    yield from Thread.objects.select_related("subject").filter(home=False)


def count_left() -> None:
    """Print the number of threads that may still be observed."""
    left = [formulas.can_be_due(load_state(thread)) for thread in _threads()]
    tell(json.dumps([sum(left)]))


def show() -> None:
    """Print by thread its observations in order, and the number of failures."""
    found = {}
    for thread in _threads():
        state = load_state(thread)
        found[thread.name] = {
            "ranges": [[each.begin, each.end] for each in state.observing.chunks],
            "watermark": state.observing.watermark,
            "methods": [run.outcome for run in observers.list_runs(thread)],
        }
    failed = Event.objects.filter(type="observer.failed").count()
    tell(json.dumps({"threads": found, "failed": failed}))
