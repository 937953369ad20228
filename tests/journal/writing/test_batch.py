"""One transaction of the journal: what commits, what is refused, what a race does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from memoryhub.errors import (
    IdempotencyMismatchError,
    ProjectFullError,
    StaleError,
    SubjectErasedError,
    ThreadFullError,
)
from memoryhub.journal import KeyedRequest, Order, OrderReceipt
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.commands import AppendSlots
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_project,
    make_slot,
    make_thread,
)

pytestmark = pytest.mark.django_db


def test_append_creates_the_thread(agent: Agent) -> None:
    receipt = append(agent, "t-1", "one", "two")
    assert receipt.created
    assert receipt.seq == 3
    assert [slot.index for slot in get_thread(agent).slots.order_by("index")] == [0, 1]


def test_refused_batch_changes_nothing(agent: Agent) -> None:
    make_thread(agent, max_slots=2)
    append(agent, "t-1", "one")
    before = [*Event.objects.values_list("seq", "chain")]
    with pytest.raises(ThreadFullError) as refusal:
        append(agent, "t-1", "two", "three")
    assert refusal.value.detail == {"max_slots": 2}
    assert [*Event.objects.values_list("seq", "chain")] == before


def test_stale_precondition_is_refused(agent: Agent) -> None:
    receipt = append(agent, "t-1", "one")
    append(agent, "t-1", "two", if_match=receipt.seq)
    with pytest.raises(StaleError):
        append(agent, "t-1", "three", if_match=receipt.seq)


def test_idempotency_key_has_one_effect(agent: Agent) -> None:
    request = KeyedRequest(key="k", fingerprint=b"body")
    first = append(agent, "t-1", "one", request=request)
    again = append(agent, "t-1", "one", request=request)
    assert again.replayed
    assert again.events == first.events
    assert Slot.objects.count() == 1
    with pytest.raises(IdempotencyMismatchError):
        append(agent, "t-1", "x", request=KeyedRequest(key="k", fingerprint=b"other"))


def test_project_keeps_its_threads_at_its_limit(acme: Project) -> None:
    small = make_agent(make_project("small", max_threads=2))
    append(small, "a", "x")
    append(small, "b", "x")
    with pytest.raises(ProjectFullError):
        append(small, "c", "x")
    assert Thread.objects.filter(project_id=small.project).count() == 2
    append(small, "a", "y")


def test_erased_subject_is_never_written_for(agent: Agent) -> None:
    append(agent, "t-1", "one")
    Subject.objects.update(state=Subject.State.ERASED)
    with pytest.raises(SubjectErasedError):
        append(agent, "t-1", "two")


def test_bound_key_does_not_find_threads_of_others(acme: Project) -> None:
    free = make_agent(acme)
    ann = make_thread(free, "ann-1", user_id="ann").subject
    append(free, "t-1", "one")
    bound = make_agent(acme, subject=ann)
    append(bound, "ann-1", "hello")
    append(bound, "t-1", "hello")
    assert get_thread(bound, "t-1").name == f"{ann.id}:t-1"
    assert get_thread(free, "t-1").slot_count == 1


@pytest.mark.parametrize("size", [1, 60])
def test_warm_append_costs_nine_statements(
    agent: Agent, size: int, django_assert_num_queries: Any
) -> None:
    append(agent, "t-1", "one")
    # Savepoint, heads, fence, head update, events, slots, their pages, totals, release.
    with django_assert_num_queries(9):
        append(agent, "t-1", *map(str, range(size)))


def test_busy_thread_does_not_churn_indexes(agent: Agent) -> None:
    """One of 1,000 appends in a second moves the thread in lists and indexes."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    times = iter(began + timedelta(milliseconds=n) for n in (0, *range(11_000, 12_000)))
    journal = BatchCommitter(clock=lambda: now)
    command = AppendSlots(slots=(make_slot(),))
    address = agent.address("t-1", birth=agent.build_birth())
    order = Order(address=address, command=command, actor=agent.actor)
    moves: list[str] = []

    def watched(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("UPDATE") and "listed_" in sql:
            moves.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(watched):
        for now in times:  # noqa: B007 # the journal's clock
            (outcome,) = journal.commit([order])
            assert isinstance(outcome, OrderReceipt)
    assert len(moves) == 1
    row = get_thread(agent)
    assert (row.listed_at, row.listed_slots) == (began + timedelta(seconds=11), 2)
    assert (row.last_event_at, row.slot_count) == (now, 1_001)
