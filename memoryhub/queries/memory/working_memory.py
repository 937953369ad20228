"""A thread's working memory as a whole: at one instant, and counted. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from memoryhub.kernel.memory.nouns import measured
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, fitting
from memoryhub.queries.memory import checkpoints, keys, tasks
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.replay.states import now_of, state_of

#: Newest checkpoints that the overview shows.
CHECKPOINTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """What there is, counted; expired keys are not there."""

    keys: int
    key_bytes: int
    expiring: int
    next_expiry_at: datetime | None
    #: The thread's own, else the project's.
    default_ttl_seconds: int | None
    #: Of the other nouns, as they declare it.
    figures: Mapping[str, Any]
    checkpoints: int
    automatic: int

    def plain(self) -> dict[str, Any]:
        """All of it by name."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return {**own.pop("figures"), **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """Everything at one instant."""

    seq: int
    task: TaskView | None
    keys: tuple[KeyLine, ...]
    #: By noun, its newest records.
    newest: Mapping[str, tuple[Any, ...]]
    checkpoints: tuple[CheckpointLine, ...]
    stats: MemoryStats


def get_memory(
    thread: Thread, *, max_keys: int, newest: Mapping[str, int], seq: int | None = None
) -> MemoryView:
    """First keys by name, newest records and checkpoints. At most nine queries.

    `thread` comes with its subject; `newest` says how many of each noun. Fewer keys
    when their values would be too much for one answer; the counts tell of all.
    """
    state = state_of(thread, seq)
    now = now_of(state, seq)
    contents = state.memory.contents
    first = list(islice(contents.visible(now).items(), max_keys))
    size = fitting((entry.bytes for _, entry in first), max_bytes=PART_BYTES)
    task = TASK.get(contents)
    return MemoryView(
        seq=state.seq,
        task=tasks.view_of(thread, state, task) if task else None,
        keys=keys.lines(thread, state, dict(first[:size]), content=True),
        newest={
            each.slice.name: each.newest(
                thread, state, each.slice.get(contents), newest[each.slice.name]
            )
            for each in COMPARED
            if each.newest is not None
        },
        checkpoints=checkpoints.lines(
            thread, state, state.memory.listed()[-CHECKPOINTS:]
        ),
        stats=stats_of(thread, state, now=now),
    )


def stats_of(thread: Thread, state: ThreadState, *, now: datetime) -> MemoryStats:
    """The counts of a state. One query, for the project's default."""
    memory = state.memory
    shown = memory.contents.visible(now).values()
    until = [entry.expires_at for entry in shown if entry.expires_at is not None]
    return MemoryStats(
        keys=len(shown),
        key_bytes=sum(entry.bytes for entry in shown),
        expiring=len(until),
        next_expiry_at=min(until, default=None),
        default_ttl_seconds=_default_ttl(thread, state),
        figures=measured(memory.contents, "stats"),
        checkpoints=memory.taken,
        automatic=len(memory.automatic),
    )


def _default_ttl(thread: Thread, state: ThreadState) -> int | None:
    own = state.config.default_ttl_seconds
    if own is not None:
        return own
    rows = Project.objects.filter(id=thread.project_id)
    return rows.values_list("default_ttl_seconds", flat=True).first()
