"""History of a thread's task, event by event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from memoryhub.journal import texts
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import ChangesKeysOrTask, Event
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import tasks
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.replay.states import load_state

#: Number of task events shown, and number of journal events searched.
HISTORY, REACH = 200, 20_000
TYPES = ("task.set", "task.updated", "task.cleared", "checkpoint.restored")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStep:
    """The task after an event; a field that no event in reach set is None."""

    seq: int
    at: datetime | None = None
    type: str = ""
    actor: str = ""
    #: None: no task, or an unknown status.
    status: str | None = None
    current_step: int | None = None
    progress_percent: float | None = None
    #: Whether this event changed the status.
    turned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """The task as of an event, and the events that led to it, oldest first."""

    task: TaskView | None
    steps: tuple[TaskStep, ...]
    #: Whether older events were left out.
    cut: bool


def get_history(thread: Thread, *, seq: int | None = None) -> TaskHistory:
    """Return the task's history as of `seq`. At most five queries, eight in a fork.

    `thread` comes with its subject.
    """
    state = load_state(thread, seq)
    task = TASK.get_current(state)
    rows = Event.objects.filter(
        ChangesKeysOrTask("type"),
        thread_id=thread.id,
        type__in=TYPES,
        seq__gt=state.seq - REACH,
        seq__lte=state.seq,
    )
    newest = list(rows.order_by("-seq")[: HISTORY + 1])
    steps = _build_steps(
        thread,
        reversed(newest),
        before=_get_first_step(thread, state),
        inherited=state.inherited_clock,
    )
    return TaskHistory(
        task=tasks.build_view(thread, state, task) if task else None,
        steps=tuple(steps)[-HISTORY:],
        cut=len(newest) > HISTORY or state.seq > REACH,
    )


def _get_first_step(thread: Thread, state: ThreadState) -> TaskStep:
    """Return the task with which a fork began."""
    if not state.inherited_clock:
        return TaskStep(seq=0)
    begun = load_state(thread, min(1, state.seq))
    task = TASK.get_current(begun)
    view = tasks.build_view(thread, begun, task) if task else None
    fields = {name: getattr(view, name) for name in _FIELDS} if view else {}
    return TaskStep(seq=0, **fields)


def _build_steps(
    thread: Thread, rows: Iterable[Event], *, before: TaskStep, inherited: int
) -> list[TaskStep]:
    steps = [before]
    for row in rows:
        body = orjson.loads(row.body)
        last = steps[-1]
        if row.type == "checkpoint.restored":
            if "task" not in body["parts"]:
                continue
            after = _find_step(steps, body["target"] - inherited)
        else:
            content = texts.open_content(thread, row)
            after = _compute_next(last, row.type, body, content)
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


def _find_step(steps: list[TaskStep], seq: int) -> TaskStep:
    return next((step for step in reversed(steps) if step.seq <= seq), TaskStep(seq=0))


def _compute_next(
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
