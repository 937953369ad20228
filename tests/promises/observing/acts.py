"""Observing in processes of an instance; what became of it is printed as JSON."""

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
from memoryhub.queries.replay.states import state_of
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


def live(threads: int, messages: int) -> None:
    """So many threads of so many messages, each of which is numbered."""
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
    """A command that does the background work, where a second stands for a minute.

    A lease is over sooner than the slowest answer comes: so both ask the same.
    """
    leases.LEASE = QUICK
    observing.ThreadObserver.poll_seconds = 0.2
    vars(asking)["FIRST"] = 1
    execute_from_command_line(["manage.py", *words])


def _threads() -> Iterator[Thread]:
    yield from Thread.objects.select_related("subject").filter(home=False)


def count_left() -> None:
    """Of how many threads something may be observed yet."""
    left = [formulas.may_be_due(state_of(thread)) for thread in _threads()]
    tell(json.dumps([sum(left)]))


def show() -> None:
    """By thread, what stands for its slots, in order; and what failed in all."""
    found = {}
    for thread in _threads():
        state = state_of(thread)
        found[thread.name] = {
            "ranges": [[each.begin, each.end] for each in state.observing.chunks],
            "watermark": state.observing.watermark,
            "methods": [run.outcome for run in observers.list_runs(thread)],
        }
    failed = Event.objects.filter(type="observer.failed").count()
    tell(json.dumps({"threads": found, "failed": failed}))
