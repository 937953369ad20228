"""Edits: events that wrote one key or the task, and whether they still stand.

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
from memoryhub.queries.replay.states import now_of, state_of

_KEY = frozenset(
    each.event_type
    for each in (key_events.KeySet, key_events.KeyRetimed, key_events.KeyDeleted)
)
_TASK = frozenset(
    each.event_type for each in (tasks.TaskSet, tasks.TaskUpdated, tasks.TaskCleared)
)
#: What leaves nothing there.
_ENDING = (key_events.KeyDeleted.event_type, tasks.TaskCleared.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What one event wrote."""

    seq: int
    actor: str
    #: What it left is there now: nothing has written it since.
    standing: bool
    #: The name of the key, or of the block; without both it wrote the task.
    key: str | None = None
    block: str | None = None
    #: It can't be taken back: what it made, once gone, could never be there again.
    final: bool = False


def find_edit(thread: Thread, seq: int) -> Edit | None:
    """Find the edit at an event; None for one that wrote anything else, or nothing.

    `thread` comes with its subject. One query beside those of its state.
    """
    rows = Event.objects.filter(thread_id=thread.id, seq=seq, type__in=_KEY | _TASK)
    row = rows.only("seq", "type", "actor", "body").first()
    if row is None:
        return None
    key = _key_of(orjson.loads(row.body)) if row.type in _KEY else None
    version = None if row.type in _ENDING else row.seq
    standing = _version_now(state_of(thread), key) == version
    return Edit(seq=row.seq, actor=row.actor, key=key, standing=standing)


def _key_of(body: Mapping[str, Any]) -> str:
    name: str = body["key"]
    return name


def _version_now(state: ThreadState, key: str | None) -> int | None:
    """Return the version of the key, or of the task; None where there is none now."""
    if key is None:
        task = TASK.value(state)
        return None if task is None else state.seq_of(task.version)
    entry = state.memory.contents.find(key, now=now_of(state))
    return None if entry is None else state.seq_of(entry.version)
