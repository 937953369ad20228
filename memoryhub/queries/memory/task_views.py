"""The task as people look at it: how it went, event by event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from memoryhub.journal.log import log
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import tasks
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.replay.states import state_of

#: Events of the task that are told, and how many of a journal are looked through.
HISTORY, REACH = 200, 20_000
_TYPES = ("task.set", "task.updated", "task.cleared", "checkpoint.restored")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStep:
    """The task after an event. What was never told here is None."""

    seq: int
    at: datetime | None = None
    type: str = ""
    actor: str = ""
    #: None: there is no task, or it is not known.
    status: str | None = None
    current_step: int | None = None
    progress_percent: float | None = None
    #: The status is another than before.
    turned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """The task as of an event, and what led to it, oldest first."""

    task: TaskView | None
    steps: tuple[TaskStep, ...]
    #: Older events were not looked at.
    cut: bool


def get_history(thread: Thread, *, seq: int | None = None) -> TaskHistory:
    """The task as of `seq`. Five queries at most, three more in a fork.

    `thread` comes with its subject.
    """
    state = state_of(thread, seq)
    task = TASK.value(state)
    rows = Event.objects.filter(
        thread_id=thread.id,
        type__in=_TYPES,
        seq__gt=state.seq - REACH,
        seq__lte=state.seq,
    )
    newest = list(rows.order_by("-seq")[: HISTORY + 1])
    steps = _steps(
        thread,
        reversed(newest),
        before=_before(thread, state),
        inherited=state.inherited_clock,
    )
    return TaskHistory(
        task=tasks.view_of(thread, state, task) if task else None,
        steps=tuple(steps)[-HISTORY:],
        cut=len(newest) > HISTORY or state.seq > REACH,
    )


def _before(thread: Thread, state: ThreadState) -> TaskStep:
    """The task that a fork began with."""
    if not state.inherited_clock:
        return TaskStep(seq=0)
    begun = state_of(thread, min(1, state.seq))
    task = TASK.value(begun)
    view = tasks.view_of(thread, begun, task) if task else None
    fields = {name: getattr(view, name) for name in _FIELDS} if view else {}
    return TaskStep(seq=0, **fields)


def _steps(
    thread: Thread, rows: Iterable[Event], *, before: TaskStep, inherited: int
) -> list[TaskStep]:
    steps = [before]
    for row in rows:
        body = orjson.loads(row.body)
        last = steps[-1]
        if row.type == "checkpoint.restored":
            if "task" not in body["parts"]:
                continue
            after = _as_of(steps, body["target"] - inherited)
        else:
            content = log.open_payload(thread.subject, thread.project_id, row) or {}
            after = _after(last, row.type, body, content)
        steps.append(
            replace(
                after,
                seq=row.seq,
                at=row.at,
                type=row.type,
                actor=row.actor,
                turned=after.status != last.status,
            )
        )
    return steps[1:]


def _as_of(steps: list[TaskStep], seq: int) -> TaskStep:
    return next((step for step in reversed(steps) if step.seq <= seq), TaskStep(seq=0))


def _after(
    before: TaskStep, type_: str, body: Mapping[str, Any], content: Mapping[str, Any]
) -> TaskStep:
    if type_ == "task.cleared":
        return TaskStep(seq=0)
    kept = {name: getattr(before, name) for name in _FIELDS if type_ != "task.set"}
    sent = {**body, **content}
    changed = {name: sent[name] for name in _FIELDS if sent.get(name) is not None}
    cleared = dict.fromkeys({*body.get("cleared", ())} & {*_FIELDS})
    return TaskStep(seq=0, **{**kept, **changed, **cleared})


_FIELDS = ("status", "current_step", "progress_percent")
