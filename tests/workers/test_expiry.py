"""Expiry: keys are swept once their instant has passed, values after their grace."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from memoryhub import journal
from memoryhub.errors import StaleError
from memoryhub.journal import Order
from memoryhub.journal.writing.writer import writer
from memoryhub.kernel.commands import CloseThread, RetireThread
from memoryhub.kernel.paging.page_commands import FlushTlb
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.expiry import get_lag, select_due_keys
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import expiry
from tests.cast.factories import get_thread, make_thread
from tests.oracles.memory_acts import (
    DAY,
    MINUTE,
    NEVER,
    NOON,
    SECOND,
    delete_key,
    dues,
    list_held_seqs,
    list_names,
    retime,
    set_key,
    travel_to,
)
from tests.oracles.page_acts import act, order

pytestmark = pytest.mark.django_db


def expire(now: datetime) -> int:
    with travel_to(now):
        return expiry.expire(now)


def erase(now: datetime) -> int:
    with travel_to(now):
        return expiry.erase(now)


def lag(now: datetime) -> timedelta:
    with travel_to(now):
        return get_lag(now)


def told(thread: Thread, kind: str) -> list[Event]:
    return [*Event.objects.filter(thread=thread, type=kind).order_by("seq")]


def let_expire(project: Project, grace: int | None) -> None:
    projects.set_lifetimes(project, default_ttl_seconds=None, grace_seconds=grace)


@pytest.fixture
def thread(agent: Agent) -> Thread:
    """Make at noon keys of a minute, of an hour, and for ever."""
    with travel_to(NOON):
        set_key(agent, "minute", ttl=MINUTE)
        set_key(agent, "hour", ttl=60 * MINUTE)
        set_key(agent, "ever")
    return get_thread(agent)


def test_key_is_swept_at_its_instant_and_not_before(thread: Thread) -> None:
    assert expire(NOON + MINUTE - timedelta(microseconds=1)) == 0
    assert list_names(thread) == ["ever", "hour", "minute"]
    assert expire(NOON + MINUTE) == 1
    assert list_names(thread) == ["ever", "hour"]
    (event,) = told(thread, "keys.expired")
    assert event.actor == "worker:expiry"


def test_sweep_makes_nobody_s_condition_stale(agent: Agent, thread: Thread) -> None:
    assert expire(NOON + MINUTE) == 1
    assert get_thread(agent).head_seq == thread.head_seq + 1
    seen = replace(order(agent, FlushTlb(), "t-1"), if_match=thread.head_seq)
    with travel_to(NOON + MINUTE):
        journal.perform(seen)
        with pytest.raises(StaleError):
            journal.perform(seen)


def test_expiry_and_erasure_tasks_are_idempotent(thread: Thread) -> None:
    now = NOON + 2 * DAY
    assert (expire(now), erase(now)) == (2, 2)
    before = get_thread_row(thread)
    assert (expire(now), erase(now)) == (0, 0)
    assert get_thread_row(thread) == before


def get_thread_row(thread: Thread) -> dict[str, Any]:
    return dict(Thread.objects.values().get(id=thread.id))


def test_value_goes_after_its_grace_and_not_before(
    agent: Agent, acme: Project, thread: Thread
) -> None:
    due = NOON + MINUTE + timedelta(seconds=86_400)
    assert erase(due - timedelta(microseconds=1)) == 0
    assert len(list_held_seqs(thread)) == 3
    assert erase(due) == 1
    assert len(list_held_seqs(thread)) == 2
    (event,) = told(thread, "values.erased")
    assert (event.actor, event.body) == (
        "worker:expiry",
        '{"reason":"expired","seqs":[2]}',
    )
    assert Event.objects.get(thread=thread, seq=2).erased_by == event.seq
    assert sorted(dues(thread)) == [3]


def test_project_says_how_long_values_stay(
    acme: Project, zeta: Project, agent: Agent, stranger: Agent
) -> None:
    let_expire(acme, 0)
    let_expire(zeta, None)
    for each in (agent, stranger):
        with travel_to(NOON):
            set_key(each, "a", ttl=MINUTE)
    assert erase(NOON + MINUTE) == 1
    assert list_held_seqs(get_thread(agent)) == []
    assert erase(NOON + 400 * DAY) == 0
    assert list_held_seqs(get_thread(stranger)) == [2]
    assert lag(NOON + 400 * DAY) == 400 * DAY - MINUTE  # the row is not yet swept
    assert expire(NOON + 400 * DAY) == 2
    assert lag(NOON + 400 * DAY) == timedelta(0)
    let_expire(zeta, 10)
    assert lag(NOON + 400 * DAY) == 400 * DAY - MINUTE - 10 * SECOND
    assert erase(NOON + 400 * DAY) == 1
    assert list_held_seqs(get_thread(stranger)) == []


def test_expiry_lag_is_that_of_the_oldest_due_record(
    acme: Project, thread: Thread
) -> None:
    let_expire(acme, 30)
    assert lag(NOON + MINUTE) == timedelta(0)
    assert lag(NOON + MINUTE + 5 * SECOND) == 5 * SECOND
    assert expire(NOON + MINUTE + 5 * SECOND) == 1
    assert lag(NOON + MINUTE + 20 * SECOND) == timedelta(0)
    assert lag(NOON + MINUTE + 30 * SECOND) == timedelta(0)
    assert lag(NOON + MINUTE + 37 * SECOND) == 7 * SECOND
    assert erase(NOON + MINUTE + 37 * SECOND) == 1
    assert lag(NOON + 2 * MINUTE) == timedelta(0)


@pytest.mark.parametrize("size", [1, 30])
def test_expiry_lag_costs_three_queries(
    agent: Agent, size: int, django_assert_num_queries: Any
) -> None:
    for n in range(size):
        with travel_to(NOON):
            set_key(agent, "a", ttl=MINUTE, thread=f"t-{n}")
            projects.create(f"p-{n}")
    with django_assert_num_queries(3):
        lag(NOON + 3 * DAY)


def test_pass_follows_pass_while_one_is_full(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "PASS", 2)
    with travel_to(NOON):
        for n in range(7):
            set_key(agent, f"k{n % 3}", ttl=(1 + n) * SECOND, thread=f"t-{n // 3}")
    assert expire(NOON + MINUTE) == 7
    assert erase(NOON + 2 * DAY) == 7


def test_expiry_task_yields_to_others(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "PASS", 2)
    monkeypatch.setattr(expiry, "AT_ONCE", 3)
    with travel_to(NOON):
        for n in range(7):
            set_key(agent, f"k{n}", ttl=MINUTE)
    assert [expire(NOON + DAY) for _ in range(3)] == [4, 3, 0]
    assert [erase(NOON + 3 * DAY) for _ in range(3)] == [4, 3, 0]


def test_two_hundred_keys_stand_in_one_event(agent: Agent) -> None:
    with travel_to(NOON):
        for n in range(201):
            set_key(agent, f"k{n}", ttl=MINUTE)
    assert expire(NOON + DAY) == 201
    assert len(told(get_thread(agent), "keys.expired")) == 2


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_erasing_subject_delays_no_other_expiry(
    agent: Agent, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "PASS", 1)
    with travel_to(NOON):
        make_thread(agent, "hers", user_id="ann")
        for n in range(3):
            set_key(agent, f"k{n}", ttl=SECOND, thread="hers")
        set_key(agent, "mine", ttl=MINUTE)
    hers = get_thread(agent, "hers")
    Subject.objects.filter(id=hers.subject_id).update(state=state)
    assert (expire(NOON + DAY), erase(NOON + 3 * DAY)) == (1, 1)
    assert lag(NOON + 3 * DAY) == timedelta(0)
    assert list_names(hers) == ["k0", "k1", "k2"]


def test_thread_that_refuses_delays_no_other_expiry(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread whose head the table does not know of takes no command."""
    monkeypatch.setattr(expiry, "PASS", 1)
    with travel_to(NOON):
        for n in range(3):
            set_key(agent, f"k{n}", ttl=SECOND, thread="bad")
        set_key(agent, "mine", ttl=MINUTE)
    bad = get_thread(agent, "bad")
    writer.journal.heads = type(writer.journal.heads)()
    Thread.objects.filter(id=bad.id).update(head_seq=99)
    assert (expire(NOON + DAY), erase(NOON + 3 * DAY)) == (1, 1)
    Thread.objects.filter(id=bad.id).update(head_seq=bad.head_seq)
    assert (expire(NOON + DAY), erase(NOON + 3 * DAY)) == (3, 3)


def test_restricted_subject_s_keys_expire_but_their_values_wait(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=SECOND)
    Subject.objects.update(state="restricted")
    assert (expire(NOON + DAY), erase(NOON + 3 * DAY)) == (1, 0)
    Subject.objects.update(state="active")
    assert erase(NOON + 3 * DAY) == 1


def test_closed_thread_s_keys_expire_like_any(agent: Agent, thread: Thread) -> None:
    with travel_to(NOON):
        act(agent, CloseThread())
    assert (expire(NOON + DAY), erase(NOON + 3 * DAY)) == (2, 2)


def test_retired_thread_has_nothing_to_sweep(agent: Agent, thread: Thread) -> None:
    """Nobody reads a retired thread, and its content is erased with it."""
    retire = RetireThread(policy_days=1, idle_days=1)
    with travel_to(NOON):
        act(agent, retire)
    assert list_names(thread) == []
    assert dues(thread) == {}
    assert (expire(NOON + DAY), erase(NOON + 3 * DAY)) == (0, 0)
    assert lag(NOON + 3 * DAY) == timedelta(0)


def test_key_that_was_set_again_survives_a_stale_sweep(
    agent: Agent, thread: Thread
) -> None:
    """The key's row is another by the time of its sweep."""
    with travel_to(NOON + 2 * MINUTE):
        rows = [*select_due_keys(NOON + 2 * MINUTE)]
        set_key(agent, "minute", "again", ttl=DAY)
        command = expiry._build_sweep([(row.key, row.version) for row in rows])
        address = agent.address("t-1")
        receipt = journal.perform(
            Order(address=address, command=command, actor=expiry.ACTOR)
        )
    assert receipt.events == ()
    assert list_names(thread) == ["ever", "hour", "minute"]


def test_key_that_is_gone_leaves_its_value_due(agent: Agent, thread: Thread) -> None:
    """A deleted value is hidden, not erased, and still falls due."""
    with travel_to(NOON):
        delete_key(agent, "minute")
        delete_key(agent, "ever")
    assert expire(NOON + MINUTE) == 0
    assert sorted(dues(thread)) == [2, 3]
    assert erase(NOON + 2 * DAY) == 2
    assert list_held_seqs(thread) == [4]


def test_retimed_value_goes_by_its_latest_expiry(agent: Agent, thread: Thread) -> None:
    with travel_to(NOON):
        retime(agent, "hour", SECOND)
        retime(agent, "minute", 2 * MINUTE)
    assert dues(thread) == {2: NOON + 2 * MINUTE, 3: NOON + 60 * MINUTE}
    assert expire(NOON + SECOND) == 1
    assert list_names(thread) == ["ever", "minute"]
    assert erase(NOON + DAY + 2 * MINUTE) == 1
    assert list_held_seqs(thread) == [3, 4]


def test_permanent_value_survives_old_deadline(agent: Agent, thread: Thread) -> None:
    with travel_to(NOON):
        retime(agent, "minute", NEVER)
        retime(agent, "hour", NEVER)
        retime(agent, "hour", MINUTE)
    assert dues(thread) == {}
    assert (expire(NOON + DAY), erase(NOON + 9 * DAY)) == (1, 0)
    assert list_held_seqs(thread) == [2, 3, 4]
    assert list_names(thread) == ["ever", "minute"]


def test_overwritten_value_is_erased_after_its_expiry(
    agent: Agent, thread: Thread
) -> None:
    with travel_to(NOON + SECOND):
        set_key(agent, "minute", "second")
        set_key(agent, "hour", "second", ttl=9 * DAY)
    assert expire(NOON + 2 * DAY) == 0
    assert erase(NOON + 2 * DAY) == 2
    assert list_held_seqs(thread) == [4, 5, 6]
