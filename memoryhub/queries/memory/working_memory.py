"""A thread's whole working memory at one instant, and its counts. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from memoryhub.kernel.memory.nouns import measure_contents
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, count_fitting
from memoryhub.queries.memory import checkpoints, keys, tasks
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.replay.states import compute_instant, load_state

#: Number of newest checkpoints that the overview shows.
CHECKPOINTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """Counts of working memory, without expired keys."""

    keys: int
    key_bytes: int
    expiring: int
    next_expiry_at: datetime | None
    #: The thread's own default, else the project's.
    default_ttl_seconds: int | None
    #: Counts of the other nouns, as each noun declares its counts.
    figures: Mapping[str, Any]
    checkpoints: int
    automatic: int

    def to_dict(self) -> dict[str, Any]:
        """Return all counts by name."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return {**own.pop("figures"), **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """The whole working memory at one instant."""

    seq: int
    task: TaskView | None
    keys: tuple[KeyLine, ...]
    #: The newest records, by noun.
    newest: Mapping[str, tuple[Any, ...]]
    checkpoints: tuple[CheckpointLine, ...]
    stats: MemoryStats


def get_memory(
    thread: Thread, *, max_keys: int, newest: Mapping[str, int], seq: int | None = None
) -> MemoryView:
    """Return first keys, newest records and checkpoints. At most nine queries.

    `thread` comes with its subject; `newest` gives the number of records per noun. Keys
    are cut where their values exceed one response; the counts cover all keys.
    """
    state = load_state(thread, seq)
    now = compute_instant(state, seq)
    contents = state.memory.contents
    first = list(islice(contents.list_visible(now).items(), max_keys))
    size = count_fitting((entry.bytes for _, entry in first), max_bytes=PART_BYTES)
    task = TASK.get(contents)
    return MemoryView(
        seq=state.seq,
        task=tasks.build_view(thread, state, task) if task else None,
        keys=keys.build_lines(thread, state, dict(first[:size]), content=True),
        newest={
            each.slice.name: each.newest(
                thread, state, each.slice.get(contents), newest[each.slice.name]
            )
            for each in COMPARED
            if each.newest is not None
        },
        checkpoints=checkpoints.build_lines(
            thread, state, state.memory.list_live()[-CHECKPOINTS:]
        ),
        stats=count_memory(thread, state, now=now),
    )


def count_memory(thread: Thread, state: ThreadState, *, now: datetime) -> MemoryStats:
    """Count a state's working memory. One query, for the project's default TTL."""
    memory = state.memory
    shown = memory.contents.list_visible(now).values()
    until = [entry.expires_at for entry in shown if entry.expires_at is not None]
    return MemoryStats(
        keys=len(shown),
        key_bytes=sum(entry.bytes for entry in shown),
        expiring=len(until),
        next_expiry_at=min(until, default=None),
        default_ttl_seconds=_get_default_ttl(thread, state),
        figures=measure_contents(memory.contents, "stats"),
        checkpoints=memory.taken,
        automatic=len(memory.automatic),
    )


def _get_default_ttl(thread: Thread, state: ThreadState) -> int | None:
    own = state.config.default_ttl_seconds
    if own is not None:
        return own
    rows = Project.objects.filter(id=thread.project_id)
    return rows.values_list("default_ttl_seconds", flat=True).first()
