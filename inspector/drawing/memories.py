"""Memories: what the panels of working memory are drawn from."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from inspector.drawing import trees
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys, notes, task_views, working_memory
from memoryhub.queries.memory.notes import NoteLine
from memoryhub.queries.memory.task_views import TaskStep
from memoryhub.queries.replay import states
from memoryhub.queries.threads.events import EventLine

Context = dict[str, Any]

#: Keys and notes of a panel; those of the timeline's tab.
LISTED, GLANCED = 50, 8
#: Notes further apart than this have the gap told between them.
GAP = timedelta(minutes=1)
_WIDE, _HIGH = 600, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Jotted:
    """A note as it is shown."""

    seq: int
    at: datetime
    by: str
    bytes: int
    text: str | None
    #: Notes that left the scratchpad for it.
    trimmed: int = 0
    #: Since the note before it, if that is long.
    gap: timedelta | None = None


def keys_panel(thread: Thread, at_seq: int | None) -> Context:
    """The first keys by name, and how full it is. Three queries."""
    found = keys.list_keys(thread, seq=at_seq, limit=LISTED)
    state = states.state_of(thread, at_seq)
    return {"listed": found.items, "more": found.next is not None, "held": state}


def task_panel(thread: Thread, at_seq: int | None) -> Context:
    """The task, and how it went. At most five queries."""
    history = task_views.get_history(thread, seq=at_seq)
    data = history.task.data if history.task else None
    return {
        "history": history,
        "line": path(history.steps, end=at_seq or thread.head_seq),
        "data": None if data is None else trees.tree(data),
    }


def notes_panel(thread: Thread, at_seq: int | None) -> Context:
    """The newest notes. Two queries."""
    found = notes.list_notes(thread, seq=at_seq, order="desc", limit=LISTED)
    return {"jotted": jotted(found.items), "following": found.next}


def glance(thread: Thread, at_seq: int | None) -> Context:
    """All of working memory, a little of each. At most nine queries."""
    memory = working_memory.get_memory(
        thread, max_keys=GLANCED, max_notes=GLANCED, seq=at_seq
    )
    newest = sorted(memory.notes, key=lambda note: -note.seq)
    return {
        "memory": memory,
        "listed": memory.keys,
        "jotted": jotted(newest),
        "task": memory.task,
    }


def jotted(lines: Iterable[NoteLine]) -> list[Jotted]:
    """Notes in the order they are shown, newest first, with the gaps between them."""
    found = [
        Jotted(seq=n.seq, at=n.at, by=n.by, bytes=n.bytes, text=n.text) for n in lines
    ]
    return _gapped(found)


def of_events(lines: Iterable[EventLine]) -> list[Jotted]:
    """The same of events that added notes."""
    found = [
        Jotted(
            seq=line.seq,
            at=line.at,
            by=line.actor,
            bytes=line.body["bytes"],
            text=None if line.payload is None else line.payload["text"],
            trimmed=line.body.get("trimmed", 0),
        )
        for line in lines
    ]
    return _gapped(found)


def _gapped(found: Sequence[Jotted]) -> list[Jotted]:
    pairs = itertools.pairwise(found)
    gaps = {later.seq: later.at - note.at for later, note in pairs}
    return [
        replace(note, gap=gap) if (gap := gaps.get(note.seq)) and gap > GAP else note
        for note in found
    ]


def path(steps: Sequence[TaskStep], *, end: int) -> str:
    """Progress as the path of an SVG, 600 wide and 100 high; empty without any."""
    if not any(step.progress_percent is not None for step in steps):
        return ""
    first = steps[0].seq
    scale = _WIDE / max(1, end - first)
    drawn, high = [], None
    for step in steps:
        x = round((step.seq - first) * scale, 1)
        percent = step.progress_percent
        if high is not None:
            drawn.append(f"H{x}")
        if percent is not None:
            y = round(_HIGH - percent, 1)
            drawn.append(f"M{x} {y}" if high is None else f"V{y}")
        high = percent
    return "".join(drawn) + (f"H{_WIDE}" if high is not None else "")
