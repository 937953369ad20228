"""Edits: events that wrote a key or the task, and whether the values still stand.

Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from memoryhub.kernel.memory import key_events, tasks
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay.states import compute_instant, load_state

_KEY = frozenset(
    each.event_type
    for each in (key_events.KeySet, key_events.KeyRetimed, key_events.KeyDeleted)
)
_TASK = frozenset(
    each.event_type for each in (tasks.TaskSet, tasks.TaskUpdated, tasks.TaskCleared)
)
#: Event types that delete the key or the task.
_ENDING = (key_events.KeyDeleted.event_type, tasks.TaskCleared.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A key, block, fact or task written by one event."""

    seq: int
    actor: str
    #: Whether the written value is current: no later event wrote the key or task.
    standing: bool
    #: The name of the key, the id of the block, or whether a fact was asserted; an edit
    #: without all three wrote the task.
    key: str | None = None
    block: str | None = None
    fact: bool = False
    #: The present name of the block, whose id is `block`.
    name: str = ""
    #: Whether the edit cannot be undone: its block, once deleted, can never return.
    final: bool = False


def find_edit(thread: Thread, seq: int) -> Edit | None:
    """Find the edit at an event; None if the event wrote no key and no task.

    `thread` comes with its subject. One query beside those of its state.
    """
    rows = Event.objects.filter(thread_id=thread.id, seq=seq, type__in=_KEY | _TASK)
    row = rows.only("seq", "type", "actor", "body").first()
    if row is None:
        return None
    key = _get_key(orjson.loads(row.body)) if row.type in _KEY else None
    version = None if row.type in _ENDING else row.seq
    standing = _find_version(load_state(thread), key) == version
    return Edit(seq=row.seq, actor=row.actor, key=key, standing=standing)


def _get_key(body: Mapping[str, Any]) -> str:
    name: str = body["key"]
    return name


def _find_version(state: ThreadState, key: str | None) -> int | None:
    """Return the current version of the key, or of the task; None without one."""
    if key is None:
        task = TASK.get_current(state)
        return None if task is None else state.to_seq(task.version)
    entry = state.memory.contents.find_key(key, now=compute_instant(state))
    return None if entry is None else state.to_seq(entry.version)
