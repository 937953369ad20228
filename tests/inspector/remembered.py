"""A thread with all of working memory: keys, a task, notes, checkpoints, a restore."""

from __future__ import annotations

import json
from datetime import timedelta

import time_machine
from django.utils import timezone

from memoryhub.kernel.memory.keys import ChangeKeys
from memoryhub.kernel.memory.tasks import SetTask, TaskField, TaskStatus, UpdateTask
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import keys
from tests.cast import factories
from tests.oracles import memory_acts
from tests.oracles.memory_acts import MINUTE, lasting
from tests.oracles.page_acts import act

HOSTILE = "<script>alert(1)</script> \u202eodd\u202c {{ 7 }} \"'>"
CART = {
    "items": [{"sku": "PX-7", "count": 2}, {"sku": HOSTILE, "count": 1}],
    "total": 31.5,
    "paid": None,
    HOSTILE: True,
}


def put(
    agent: Agent,
    key: str,
    value: object,
    *,
    ttl: timedelta | None = None,
    thread: str = "desk",
) -> int:
    """Set a key as an agent does; return the seq of the event."""
    text = json.dumps(value).encode()
    change = keys.parse_setting(key, text, lasting(ttl))
    return act(agent, ChangeKeys(changes=(change,)), thread).seq


def dump_text(value: object) -> bytes:
    return strict_json.dump_stored(value)


def make_desk(agent: Agent, name: str = "desk", *, user_id: str = "ann") -> Thread:
    """Make a thread with checkpoints `before`, which was restored, and `after`.

    Keys: `cart` (an object), `seat`, `quote` (for an hour), `token` (for a minute).
    """
    scope = ScopeLabels(agent_type="support", agent_instance="desk-2", session="monday")
    factories.make_thread(agent, name, user_id=user_id, scope=scope)
    put(agent, "cart", CART, thread=name)
    put(agent, "seat", "12A", thread=name)
    fields: dict[TaskField, bytes] = {
        "description": dump_text(f"Rebook ann {HOSTILE}"),
        "data": dump_text({"step": [1]}),
    }
    act(agent, SetTask(status="running", fields=fields), name)
    memory_acts.add_notes(agent, "Asked for the number.", HOSTILE, thread=name)
    memory_acts.take(agent, "before", thread=name)
    put(agent, "seat", "14C", thread=name)
    put(agent, "quote", 129.9, ttl=60 * MINUTE, thread=name)
    act(
        agent,
        UpdateTask(fields={"progress_percent": b"40.0", "current_step": b"2"}),
        name,
    )
    memory_acts.add_notes(agent, "It was a mistake.", thread=name)
    memory_acts.take(agent, "after", thread=name)
    memory_acts.delete_key(agent, "cart", thread=name)
    memory_acts.restore(agent, "before", thread=name)
    put(agent, "token", "t-0", ttl=MINUTE, thread=name)
    act(agent, UpdateTask(fields={"progress_percent": b"55.0"}), name)
    memory_acts.add_notes(agent, "Now with the right seat.", thread=name)
    return factories.get_thread(agent, name)


def make_busy(agent: Agent, name: str = "busy") -> Thread:
    """Make sixty keys, a task that goes up and down, notes over hours."""
    with time_machine.travel(timezone.now() - timedelta(hours=3), tick=False) as now:
        factories.make_thread(agent, name)
        for n in range(60):
            ttl = timedelta(hours=4 + n) if n % 3 else None
            put(agent, f"leg.{n:02}.{'x' * (n % 40)}", ["a", n], ttl=ttl, thread=name)
        for n in range(25):
            now.shift(timedelta(seconds=20 if n % 4 else 900))
            fields: dict[TaskField, bytes] = {
                "progress_percent": b"%d" % ((n * 17) % 100),
                "current_step": b"%d" % n,
            }
            status: TaskStatus = "blocked" if n % 5 == 4 else "running"
            memory_acts.set_task(agent, name, status=status, fields=fields)
            memory_acts.add_notes(agent, f"Thought {n}. " + "Why? " * 30, thread=name)
    return factories.get_thread(agent, name)
