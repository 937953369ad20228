from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import journal
from memoryhub.journal import Order
from memoryhub.journal.writing.writer import writer
from memoryhub.kernel.commands import CloseThread
from memoryhub.models.events import Event
from memoryhub.models.pages import PageLevel
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import levels
from memoryhub.workers.reconcile import TASKS
from tests.cast.factories import append, get_thread
from tests.services.paging.test_levels import add, crowd

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def list_due() -> list[str]:
    return [*Thread.objects.filter(levels_due=True).values_list("name", flat=True)]


def count_compressed() -> int:
    return Event.objects.filter(type="page.compressed").count()


def test_crowded_thread_is_due_until_it_was_looked_at(agent: Agent) -> None:
    append(agent, "roomy", "hello")
    crowd(agent, count=2)
    assert list_due() == []
    add(agent, count=8)
    assert list_due() == ["t-1"]
    assert levels.make(NOON) == 10
    assert list_due() == []


def test_second_level_pass_writes_nothing_and_reads_no_thread(agent: Agent) -> None:
    crowd(agent)
    assert levels.make(NOON) == 10
    head = get_thread(agent).head_seq
    with CaptureQueriesContext(connection) as queries:
        assert levels.make(NOON) == 0
    assert len(queries) == 1
    assert get_thread(agent).head_seq == head


def test_thread_that_moves_is_looked_at_again(agent: Agent) -> None:
    crowd(agent)
    levels.make(NOON)
    add(agent, count=3)
    assert list_due() == ["t-1"]
    assert levels.make(NOON) == 3
    assert (count_compressed(), list_due()) == (13, [])


def test_due_mark_is_removed_when_no_level_can_be_made(agent: Agent) -> None:
    """Otherwise the worker would read a thread of small messages every ten seconds."""
    crowd(agent, count=3, evict_to=0.05)
    levels.make(NOON)
    append(agent, "t-1", "short")
    assert list_due() == ["t-1"]
    assert levels.make(NOON) == 0
    assert list_due() == []


def test_thread_written_during_a_pass_stays_due_for_levels(agent: Agent) -> None:
    """The slots that the agent adds in between are still to be looked at."""
    thread = crowd(agent)
    add(agent, count=1)
    levels._clear_mark(thread, thread.head_seq)  # as if the pass ended now
    assert list_due() == ["t-1"]
    assert levels.make(NOON) == 11


def test_closed_threads_and_restricted_subjects_are_left_alone(agent: Agent) -> None:
    crowd(agent, "closed")
    address = agent.address("closed")
    close = Order(address=address, command=CloseThread(), actor=agent.actor)
    journal.perform(close)
    assert list_due() == []
    crowd(agent, "open")
    for state in ("restricted", "erasing", "erased"):
        Subject.objects.update(state=state)
        assert levels.make(NOON) == 0
    assert (list_due(), count_compressed()) == (["open"], 0)
    Subject.objects.update(state="active")
    assert levels.make(NOON) == 10


@pytest.mark.no_replay
def test_thread_that_cannot_be_read_keeps_nobody_waiting(agent: Agent) -> None:
    crowd(agent, "lost")
    crowd(agent, "whole")
    Thread.objects.filter(name="lost").update(head_seq=99)
    assert levels.make(NOON) == 10
    assert list_due() == []


def test_level_passes_are_bounded_and_start_with_the_longest_silent(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second", "third"):
        crowd(agent, name)
    monkeypatch.setattr(levels, "PAGES", 15)
    assert levels.make(NOON) == 20
    assert list_due() == ["third"]
    assert levels.make(NOON) == 10
    monkeypatch.setattr(levels, "THREADS", 1)
    add(agent, "first", count=1)
    add(agent, "second", count=1)
    assert levels.make(NOON) == 1
    assert list_due() == ["second"]


@pytest.mark.django_db(transaction=True)
def test_full_queue_ends_the_level_pass_and_leaves_the_thread_due(
    agent: Agent, settings: Any
) -> None:
    crowd(agent)
    writer.start()
    settings.QUEUE_COMMANDS = 0
    assert levels.make(NOON) == 0
    assert list_due() == ["t-1"]
    settings.QUEUE_COMMANDS = 100
    assert levels.make(NOON) == 10


@pytest.mark.django_db(transaction=True)
def test_levels_by_the_real_writer_fold_to_the_stored_state(agent: Agent) -> None:
    thread = crowd(agent, count=20)
    writer.start()
    assert levels.make(NOON) == 20
    row = get_thread(agent)
    assert verify(row) is None
    assert not row.levels_due
    assert row.head_seq == thread.head_seq + 20
    assert PageLevel.objects.filter(thread=thread).count() == 60


def test_due_threads_are_found_by_an_index(agent: Agent) -> None:
    crowd(agent)
    rows = levels._list_due()  # its plan
    if connection.vendor == "sqlite":
        assert "thread_levels_due" in rows.explain()
    assert [row.name for row in rows] == ["t-1"]


def test_level_making_is_one_of_the_worker_tasks() -> None:
    assert levels.make in [task.work for task in TASKS]
