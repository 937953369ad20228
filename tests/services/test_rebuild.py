from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memoryhub import journal
from memoryhub.kernel.commands import ImportMessages, RunMessage
from memoryhub.kernel.state.events import RunRecorded, ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from memoryhub.services.threads import threads
from tests.cast.factories import append, get_thread, make_slot, make_thread, run

pytestmark = pytest.mark.django_db

PROJECTIONS = (Slot, Turn, ThreadLabel)


def list_rows(thread: Thread) -> dict[str, list[Any]]:
    """Return everything stored that repeats the fold."""
    found: dict[str, list[Any]] = {
        model.__name__: list(
            model._default_manager.filter(thread=thread).order_by("pk").values()
        )
        for model in PROJECTIONS
    }
    return {**found, "Thread": [*Thread.objects.filter(id=thread.id).values()]}


def make_run(agent: Agent, name: str = "run") -> Thread:
    """Make a thread with turns, slots and labels."""
    make_thread(agent, name, labels={"a": "x", "b": 1.5})
    messages = tuple(
        RunMessage(slot=make_slot(number), turn=number % 3 == 1) for number in range(20)
    )
    run_recorded = RunRecorded(format="runs", messages=20)
    journal.perform(
        journal.Order(
            address=agent.address(name),
            command=ImportMessages(
                after=0,
                messages=messages,
                digest="ab" * 16,
                run=run_recorded,
                info=b"{}",
            ),
            actor="import",
        )
    )
    return get_thread(agent, name)


def test_rebuild_restores_lost_and_wrong_rows(agent: Agent) -> None:
    thread = make_run(agent)
    before = list_rows(thread)
    Slot.objects.filter(index__lt=5).delete()
    Slot.objects.update(tokens=1_000, type="chat.system")
    Turn.objects.filter(n=2).delete()
    Turn.objects.create(thread=thread, n=99, seq=3)
    ThreadLabel.objects.filter(name="a").delete()
    Thread.objects.update(slot_count=1, turn_count=0, labels="{}", status="closed")
    assert verify(get_thread(agent, "run")) is not None
    rebuild(get_thread(agent, "run"))
    assert list_rows(thread) == before
    assert verify(get_thread(agent, "run")) is None


def test_rebuild_leaves_correct_rows_unchanged(agent: Agent) -> None:
    thread = make_run(agent)
    before = list_rows(thread)
    rebuild(thread)
    rebuild(get_thread(agent, "run"))
    assert list_rows(thread) == before


def test_rebuild_does_not_touch_the_journal(agent: Agent) -> None:
    thread = make_run(agent)
    before = list(Event.objects.order_by("seq").values())
    rebuild(thread)
    assert list(Event.objects.order_by("seq").values()) == before


def test_thread_goes_on_after_it_was_rebuilt(agent: Agent) -> None:
    append(agent, "t-1", "a", "b")
    Slot.objects.all().delete()
    rebuild(get_thread(agent))
    receipt = append(agent, "t-1", "c")
    assert (receipt.seq, get_thread(agent).slot_count) == (4, 3)


def test_fork_is_rebuilt_from_its_parent(agent: Agent) -> None:
    append(agent, "t-1", "a", "b", "c")
    parent = get_thread(agent)
    command = threads.build_fork(
        parent, 3, scope=ScopeLabels(), labels={"x": True}, config=ThreadConfig()
    )
    run(threads.fork(agent=agent, name="child", command=command))
    append(agent, "child", "C")
    child = get_thread(agent, "child")
    before = list_rows(child)
    Slot.objects.filter(thread=child).delete()
    Thread.objects.filter(id=child.id).update(lineage="[]", slot_count=0)
    rebuild(get_thread(agent, "child"))
    assert list_rows(child) == before


def test_long_thread_is_rebuilt_in_pieces_and_its_snapshots_come_back(
    agent: Agent,
) -> None:
    for _ in range(6):
        append(agent, "t-1", *range(200))
    thread = get_thread(agent)
    assert Snapshot.objects.filter(thread=thread).count() == 2
    steps: list[int] = []
    before = list_rows(thread)
    Slot.objects.filter(index__gte=100).delete()
    rebuild(thread, progress=steps.append)
    assert list_rows(thread) == before
    assert sum(steps) == 1_201
    assert len(steps) > 2
    assert verify(get_thread(agent)) is None
    # The next one is due after 3/5 as many events as pages are resident.
    for _ in range(10):
        append(agent, "t-1", *range(200))
    assert Snapshot.objects.filter(thread=thread).count() == 1


def test_writer_keeps_its_state_after_a_rebuild(agent: Agent) -> None:
    """Keep the writer's state, which is the journal's and outlasts a rebuild."""
    append(agent, "t-1", "a")
    rebuild(get_thread(agent))
    append(agent, "t-1", "b")
    rebuild(get_thread(agent))
    bound = replace(agent, create_on_write=False)
    assert append(bound, "t-1", "c").seq == 4
