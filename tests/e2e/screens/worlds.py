"""Worlds that screens show, made in a process of the shared instance of a module."""

from __future__ import annotations

import json
import select
import sys
import time
from datetime import timedelta

import time_machine
from django.utils import timezone

from memoryhub.kernel.state.events import LabelValue
from memoryhub.models.server.clock import clock
from memoryhub.models.server.leases import Lease
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from memoryhub.workers import erasures, leases
from tests.cast import factories
from tests.inspector import forgotten
from tests.inspector.paged import make_paged
from tests.inspector.remembered import make_busy, make_desk, put
from tests.promises.journal.appender import tell

CALL = {
    "role": "assistant",
    "content": "Let me look.",
    "tool_calls": [
        {"id": "c1", "function": {"name": "find", "arguments": '{"number":"PX-7"}'}}
    ],
}
RESULT = {
    "role": "tool",
    "tool_call_id": "c1",
    "content": '{"stops":["Oslo","Bergen"]}',
}
#: Seconds between renewals, shorter than a lease.
RENEWED_SECONDS = 5


def acme() -> Agent:
    return factories.make_agent(factories.make_project("acme"))


def make_talk() -> None:
    """Make a thread with all kinds of records, its fork, and runs of a month ago."""
    clock.use_source(time.time_ns)
    agent = acme()
    with time_machine.travel(timezone.now() - timedelta(days=30), tick=False):
        for n in range(9):
            labels: dict[str, LabelValue] = {"source": f"desk-{n % 2}", "reward": n / 8}
            factories.make_thread(agent, f"desk:{n}:0", labels=labels)
    old = factories.get_thread(agent, "desk:0:0")
    assert timezone.now() - old.created_at > timedelta(days=29)
    factories.make_thread(agent, "talk", user_id="ann", labels={"team": "red"})
    factories.append(agent, "talk", "Where is my parcel?", CALL, RESULT, {"any": [1]})
    factories.append(agent, "talk", "\u202eodd\u202c", "x" * 70_000)
    make_paged(agent, "paged", rounds=8)
    make_desk(agent)
    # The key `token` lives for a minute, less than the tests of its screens take.
    put(agent, "voucher", "v-1", ttl=timedelta(hours=1), thread="desk")
    make_busy(agent)
    thread = factories.get_thread(agent, "talk")
    operator_threads.fork(thread, actor="operator:x", name="talk.alt", seq=4)
    tell("{}")


def make_town() -> None:
    """Make people in every state and print their ids; open erasures stay half-way."""
    town = forgotten.make_town(acme())
    ids = {name: str(person.id) for name, person in town.people.items()}
    for name in ("planned", "under_way", "held", "complete", "receipt", "hold"):
        ids[name] = str(getattr(town, name).id)
    ids["stone"] = str(town.stone.id)
    holder = Lease.objects.get(name=erasures.LEASE).holder
    tell(json.dumps(ids))
    while not select.select([sys.stdin], [], [], RENEWED_SECONDS)[0]:
        assert leases.hold(erasures.LEASE, holder=holder, now=clock.now())


def make_nobody() -> None:
    """Make an empty project."""
    acme()
    tell("{}")
