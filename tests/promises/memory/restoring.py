"""Restores killed at each of their writes; runs in an instance of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import get_thread, make_agent, make_project
from tests.harness.killing import in_child, told_by_child
from tests.oracles import memory_acts as acts
from tests.replay import assert_replays
from tests.services.acts import state_of

WRITES = ("INSERT", "UPDATE", "DELETE")


def kill_everywhere() -> None:
    """Print the outcomes of restores that died at their first write, their second, …

    `old` and `new` are the thread before and after an undisturbed restore.
    """
    in_child(lambda: make_project("acme"))
    told: dict[str, Any] = {"killed": []}
    for name, work in (("old", _prepare), ("new", _restore_whole)):
        in_child(partial(work, name))
        told[name] = _show_thread(name)
    write = 0
    while True:
        write += 1
        name = f"killed-{write}"
        code = in_child(partial(_die, name, write))
        told["killed"].append([code, _show_thread(name)])
        if code == 0:
            break
    sys.stdout.write(json.dumps(told))


def _agent() -> Agent:
    return make_agent(Project.objects.get(slug="acme"))


def _prepare(thread: str) -> None:
    """Make a thread far from its first checkpoint, with twenty automatic ones."""
    agent = _agent()
    acts.set_keys(agent, *(acts.new_key(f"k{n}") for n in range(5)), thread=thread)
    acts.add_notes(agent, "one", "two", thread=thread)
    acts.take(agent, "base", thread=thread)
    for n in range(20):
        acts.set_key(agent, "k0", n, thread=thread)
        acts.restore(agent, "base", thread=thread)
    acts.set_key(agent, "k1", "other", ttl=timedelta(days=1), thread=thread)
    acts.set_key(agent, "new", thread=thread)
    acts.delete_key(agent, "k2", thread=thread)
    acts.add_notes(agent, "three", thread=thread)
    acts.set_task(agent, thread=thread)


def _restore(thread: str) -> None:
    acts.restore(_agent(), "base", thread=thread)


def _restore_whole(thread: str) -> None:
    _prepare(thread)
    _restore(thread)


def _die(thread: str, write: int) -> None:
    """Run a restore and die at the given write, the commit around it included."""
    _prepare(thread)
    left = write

    def die() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute_or_die(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.lstrip().upper().startswith(WRITES):
            die()
        return execute(sql, *rest)

    commit = BaseDatabaseWrapper.commit

    def committing(connection: BaseDatabaseWrapper) -> None:
        die()
        commit(connection)
        die()

    BaseDatabaseWrapper.commit = committing  # type: ignore[method-assign, assignment]  # to die
    with transaction.get_connection().execute_wrapper(execute_or_die):
        _restore(thread)


def _show_thread(thread: str) -> Any:
    """Return the whole thread, once it is proved sound."""

    def show() -> str:
        row = get_thread(_agent(), thread)
        assert_replays(row)
        memory = state_of(row).memory
        shown = {
            "seq": row.head_seq,
            "keys": {n: e.value for n, e in sorted(memory.contents.keys.items())},
            "rows": {each["key"]: each["value_seq"] for each in acts.key_rows(row)},
            "dues": sorted(acts.dues(row)),
            "notes": [note.clock for note in NOTES.get(memory.contents).lines],
            "task": TASK.get(memory.contents) is not None,
            "checkpoints": [each.clock for each in memory.list_live()],
            "base": memory.base,
        }
        return json.dumps(shown)

    return json.loads(told_by_child(show))
