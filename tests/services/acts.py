"""Acts of agents on threads, and readers of the resulting state."""

from __future__ import annotations

from typing import Any

from memoryhub import journal
from memoryhub.journal import OrderReceipt, texts
from memoryhub.kernel.state.events import LabelValue, ThreadConfig
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.state import ScopeLabels, ThreadState
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from tests.cast.factories import (
    get_thread,
    run,
)


def fork(
    agent: Agent,
    parent: str,
    name: str,
    *,
    seq: int | None = None,
    labels: dict[str, LabelValue] | None = None,
    **limits: Any,
) -> Thread:
    row = get_thread(agent, parent)
    command = threads.build_fork(
        row,
        row.head_seq if seq is None else seq,
        scope=ScopeLabels(),
        labels=labels,
        config=ThreadConfig(**limits),
    )
    run(threads.fork(agent=agent, name=name, command=command))
    return get_thread(agent, name)


def amend(agent: Agent, thread: str = "t-1", **changes: object) -> OrderReceipt:
    given = {"scope": ScopeLabels(), **changes}
    return run(threads.amend(agent=agent, thread=thread, **given))  # type: ignore[arg-type]  # as the test gives them


def state_of(thread: Thread, seq: int | None = None) -> ThreadState:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    return journal.fold_thread(row, row.head_seq if seq is None else seq).state


def paging(agent: Agent, thread: str = "t-1") -> Paging:
    return state_of(get_thread(agent, thread)).paging


def list_contents(thread: Thread) -> list[object]:
    """List the thread's messages as a reader sees them, its ancestors' included."""
    state = state_of(thread)
    lines = [
        line
        for part in state.lineage
        for line in list_own_contents(
            Thread.objects.get(id=part.thread), part.first, part.end
        )
    ]
    return lines + list_own_contents(thread, state.inherited, state.slot_count)


def list_own_contents(thread: Thread, first: int, end: int) -> list[object]:
    row = Thread.objects.select_related("subject").get(id=thread.id)
    slots = row.slots.filter(index__gte=first, index__lt=end).order_by("index")
    seqs = [slot.seq for slot in slots]
    opened = texts.open_contents(row.subject, row.project_id, row.id, seqs)
    return [opened[seq]["content"] for seq in seqs]
