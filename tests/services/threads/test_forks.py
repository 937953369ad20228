from __future__ import annotations

import time
from statistics import median

import pytest

from memoryhub.errors import (
    NameTakenError,
    SeqUnknownError,
    ThreadFullError,
)
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots, threads
from tests.cast.factories import (
    append,
    get_thread,
    make_slot,
    make_thread,
    run,
)
from tests.services.acts import fork, list_contents

pytestmark = pytest.mark.django_db


def test_fork_goes_on_where_its_parent_stood(agent: Agent) -> None:
    append(agent, "t-1", "a", "b", "c")
    child = fork(agent, "t-1", "child", seq=3)
    assert (child.slot_count, child.head_seq, child.fork_seq) == (2, 1, 3)
    append(agent, "child", "C")
    append(agent, "t-1", "d")
    assert list_contents(get_thread(agent, "child")) == ["a", "b", "C"]
    assert list_contents(get_thread(agent)) == ["a", "b", "c", "d"]
    assert [slot.index for slot in get_thread(agent, "child").slots.all()] == [2]


def test_inherited_slots_count_against_a_forks_limit(agent: Agent) -> None:
    append(agent, "t-1", "a", "b")
    fork(agent, "t-1", "child", max_slots=3)
    append(agent, "child", "c")
    with pytest.raises(ThreadFullError):
        append(agent, "child", "d")


def test_fork_needs_a_free_name_and_a_known_seq(agent: Agent) -> None:
    append(agent, "t-1", "a")
    append(agent, "taken", "x")
    with pytest.raises(NameTakenError):
        fork(agent, "t-1", "taken")
    with pytest.raises(NameTakenError):
        fork(agent, "t-1", "t-1")
    with pytest.raises(SeqUnknownError):
        fork(agent, "t-1", "child", seq=3)
    assert Thread.objects.count() == 2


def test_fork_copies_no_content(agent: Agent) -> None:
    append(agent, "t-1", *("x" * 1000 for _ in range(20)))
    child = fork(agent, "t-1", "child")
    assert Event.objects.filter(thread=child).count() == 1
    assert not child.slots.exists()
    assert not Event.objects.filter(thread=child, payload__isnull=False).exists()


def seconds_to_fork(agent: Agent, parent: str, name: str) -> float:
    row = get_thread(agent, parent)
    began = time.process_time()
    fork_of(agent, row, name)
    return time.process_time() - began


def fork_of(agent: Agent, parent: Thread, name: str) -> None:
    seq = parent.head_seq
    command = threads.build_fork(
        parent, seq, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    run(threads.fork(agent=agent, name=name, command=command))


def grow(agent: Agent, thread: str, size: int) -> None:
    batch = [make_slot("x")] * 200
    for done in range(0, size, 200):
        run(slots.append(agent=agent, thread=thread, slots=batch[: size - done]))


@pytest.mark.parametrize("size", [1_100, 2_300])
def test_fork_costs_the_same_statements_at_any_size(
    agent: Agent, size: int, django_assert_max_num_queries
) -> None:
    grow(agent, "t-1", size)
    parent = get_thread(agent)
    fork_of(agent, parent, "warm")
    # Parent's state: snapshot, chain, up to two reads of events. Birth: savepoint,
    # heads, fence, dead names, erased values, thread count, thread, event, totals,
    # release.
    with django_assert_max_num_queries(14):
        fork_of(agent, parent, "child")


def events_behind(agent: Agent, thread: str) -> int:
    """Count the events that a fork at the head folds after the newest snapshot."""
    row = get_thread(agent, thread)
    kept = Snapshot.objects.filter(thread=row).order_by("-seq")
    return row.head_seq - (kept.values_list("seq", flat=True).first() or 0)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_fork_time_does_not_grow_with_the_parent(agent: Agent) -> None:
    """Require that a fork of 100,000 slots costs at most twice one of 100.

    Both threads are 100 events past their newest snapshot.
    """
    make_thread(agent, "large", max_slots=200_000)
    grow(agent, "small", 100)
    grow(agent, "large", 100_000)
    # The distance of snapshots depends on the number of pages in the state.
    while (behind := events_behind(agent, "large")) != 100:
        grow(agent, "large", 1 if 60 <= behind < 100 else 100)
    small, large = [], []
    for number in range(61):
        small.append(seconds_to_fork(agent, "small", f"s-{number}"))
        large.append(seconds_to_fork(agent, "large", f"l-{number}"))
    assert median(large) / median(small) <= 2
