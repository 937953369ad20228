"""Process of a hub that acts on a thread's working memory as told.

Each line of its standard input is an instant, a word and its arguments; it answers
each with a line. Its clock shows the given instants and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from memoryhub import journal
from memoryhub.errors import InvalidError, Refusal
from memoryhub.journal import Order, writer
from memoryhub.journal.log import log
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import checkpoints, keys, notes, tasks
from memoryhub.queries.replay.replay import followed, sought
from memoryhub.queries.verify import verification
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from memoryhub.workers import expiry
from tests.cast.factories import get_thread, make_agent, make_project
from tests.promises.journal.appender import tell


def make(slug: str) -> None:
    """Make a project whose values are erased as soon as they have expired."""
    Project.objects.filter(id=make_project(slug).id).update(
        expired_value_grace_seconds=0
    )


def obey(slug: str) -> None:
    agent = make_agent(Project.objects.get(slug=slug))
    writer.start()
    tell("ready")
    for line in sys.stdin:
        instant, word, thread, said = pickle.loads(base64.b64decode(line))
        clock.use_source(partial(int, instant))
        tell(json.dumps(_ACTS[word](agent, thread, said)))
    writer.stop()


def said(instant: int, word: str, thread: str, what: Any = None) -> str:
    """Return the line of an order."""
    return base64.b64encode(pickle.dumps((instant, word, thread, what))).decode()


def _create(agent: Agent, thread: str, config: dict[str, Any]) -> int:
    limits = ThreadConfig(**config)
    asyncio.run(
        threads.create(
            agent=agent,
            thread=thread,
            subject=None,
            scope=ScopeLabels(),
            labels=None,
            config=limits,
        )
    )
    return get_thread(agent, thread).head_seq


def _do(agent: Agent, thread: str, command: Any) -> dict[str, Any]:
    try:
        receipt = journal.perform(
            Order(address=agent.address(thread), command=command, actor=agent.actor)
        )
    except InvalidError as refusal:
        return {"code": refusal.invalid_code}
    except Refusal as refusal:
        return {"code": refusal.code}
    return {"events": [_told(each.event) for each in receipt.events]}


def _told(event: Any) -> list[str]:
    text = event.model_dump_json(by_alias=True, exclude_none=True)
    return [event.event_type, text]


def _sweep(agent: Agent, thread: str, said: None) -> list[list[str]]:
    """Run a pass of the worker; return the events of this thread."""
    row = get_thread(agent, thread)
    expiry.expire(clock.now())
    expiry.erase(clock.now())
    rows = log.iter_rows(row.id, after=row.head_seq)
    return [_told(log.to_recorded(each).event) for each in rows]


def _forget(agent: Agent, thread: str, said: None) -> None:
    """Drop all that a process keeps, as a new one begins."""
    writer.stop()
    writer.journal = BatchCommitter()
    followed.clear()
    sought.clear()
    writer.start()


def _look(agent: Agent, thread: str, said: None) -> dict[str, Any]:
    """Return the answers of the thread's readers."""
    row = get_thread(agent, thread)
    found = keys.list_keys(row, values=True, limit=200).items
    listed = checkpoints.list_checkpoints(row, limit=200).items
    lines = notes.list_notes(row, limit=200).items
    return {
        "keys": [[each.name, each.version, each.value, each.bytes] for each in found],
        "notes": [[each.seq, each.text] for each in lines],
        "task": _find_task(row),
        "checkpoints": [[each.seq, each.name, each.auto] for each in listed],
    }


def _find_task(row: Thread) -> dict[str, Any] | None:
    try:
        view = tasks.get_task(row)
    except Refusal:
        return None
    names = ("status", "current_step", "progress_percent", "description", "data")
    return {name: getattr(view, name) for name in (*names, "version")}


def _verify(agent: Agent, thread: str, said: None) -> str:
    return str(verification.verify(get_thread(agent, thread)) or "")


_ACTS: dict[str, Callable[[Agent, str, Any], Any]] = {
    "create": _create,
    "do": _do,
    "sweep": _sweep,
    "forget": _forget,
    "look": _look,
    "verify": _verify,
}
