"""Rows of checkpoints: what the ORM finds is what a thread can return to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.kernel.commands import CloseThread, RetireThread
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Checkpoint
from memoryhub.queries.memory import checkpoints
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import get_thread
from tests.oracles import memory_acts
from tests.oracles.memory_acts import add_notes, restore, set_key, set_task, take
from tests.oracles.page_acts import act
from tests.services.acts import fork

pytestmark = pytest.mark.django_db


def list_checkpoints(thread: Thread) -> dict[Any, Checkpoint]:
    """Return the checkpoints by name, or by seq where a checkpoint has none."""
    found = Checkpoint.objects.filter(thread=thread).order_by("seq")
    return {row.name or row.seq: row for row in found}


def test_checkpoint_row_has_time_actor_and_size(agent: Agent) -> None:
    set_key(agent, "seat")
    first = take(agent, "empty-handed").events[0]
    add_notes(agent, "one", "two")
    set_task(agent)
    second = take(agent, "later").events[0]
    found = list_checkpoints(get_thread(agent))
    assert [*found] == ["empty-handed", "later"]
    one, other = found.values()
    assert (one.seq, one.at, one.parent) == (first.seq, first.at, None)
    assert (other.seq, other.by, other.parent) == (second.seq, one.by, one.seq)
    assert json.loads(one.counts) == {"keys": 1, "has_task": False, "notes": 0}
    assert json.loads(other.counts) == {"keys": 1, "has_task": True, "notes": 2}
    assert (one.touched, other.touched) == (None, 0)


def test_deleted_checkpoint_hands_its_parent_to_its_heir(agent: Agent) -> None:
    for name in ("a", "b", "c"):
        take(agent, name)
        set_key(agent, name)
    memory_acts.forget_checkpoint(agent, "b")
    found = list_checkpoints(get_thread(agent))
    assert [*found] == ["a", "c"]
    assert (found["c"].parent, found["c"].touched) == (found["a"].seq, 2)


def test_restore_leaves_its_way_back(agent: Agent) -> None:
    take(agent, "here")
    set_key(agent, "a")
    restore(agent, "here")
    _, own = list_checkpoints(get_thread(agent)).values()
    assert (own.auto, own.name) == (True, None)


def test_fork_has_what_it_inherits_and_the_parent_keeps_its_own(agent: Agent) -> None:
    set_key(agent, "a")
    taken = take(agent, "here").events[0]
    fork(agent, "t-1", "child")
    take(agent, "own", "child")
    parent, child = get_thread(agent), get_thread(agent, "child")
    here = list_checkpoints(child)["here"]
    assert here.seq <= 0 < list_checkpoints(child)["own"].seq
    assert (here.event_thread, here.event_seq) == (parent.id, taken.seq)
    assert (here.at, here.by) == (taken.at, list_checkpoints(parent)["here"].by)
    memory_acts.forget_checkpoint(agent, "here", "child")
    assert ([*list_checkpoints(parent)], [*list_checkpoints(child)]) == (
        ["here"],
        ["own"],
    )


def test_ended_thread_has_no_checkpoint_rows(agent: Agent) -> None:
    take(agent, "here")
    act(agent, CloseThread())
    act(agent, RetireThread(policy_days=1, idle_days=1))
    assert not list_checkpoints(get_thread(agent))


def test_lists_of_now_and_as_of_the_head_are_the_same(
    agent: Agent, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        set_key(agent, "a", number)
        take(agent, f"c-{number}")
    set_key(agent, "a", "last")
    restore(agent, "c-1")
    thread = get_thread(agent)
    then = checkpoints.list_checkpoints(thread, seq=thread.head_seq)
    with django_assert_num_queries(2):
        now = checkpoints.list_checkpoints(thread)
    assert now == then
    assert len(now.items) == 6
    parts: list[Any] = []
    after = None
    while after or not parts:
        part = checkpoints.list_checkpoints(thread, after=after, limit=2)
        parts += part.items
        after = part.next
    assert tuple(parts) == now.items
    (named,) = checkpoints.list_checkpoints(thread, name="c-3").items
    assert named == now.items[3]
    (own,) = checkpoints.list_checkpoints(thread, auto=True).items
    assert own.auto
