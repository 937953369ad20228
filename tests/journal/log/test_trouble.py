"""Behaviour of a batch when something goes wrong beneath it or beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import (
    CorruptError,
    SubjectErasedError,
    UnavailableError,
)
from memoryhub.journal import KeyedRequest, Order, OrderReceipt
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.commands import AppendSlots, CloseThread, NewSlot
from memoryhub.kernel.state.state import MAX_COUNTED, OTHER
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests.cast.factories import append, get_thread, make_agent, make_slot, make_thread

pytestmark = pytest.mark.django_db


def order(agent: Agent, thread: str, *slots: NewSlot) -> Order:
    return Order(
        address=agent.address(thread, birth=agent.build_birth()),
        command=AppendSlots(slots=slots or (make_slot(),)),
        actor=agent.actor,
    )


def answers_lost(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Commit, and lose the answer, as a cut connection does."""
    commit: Callable[[], None] = getattr(connection, "_commit")  # noqa: B009 # untyped
    left = [times]

    def lossy() -> None:
        commit()
        if left[0]:
            left[0] -= 1
            raise OperationalError("the connection was cut")

    monkeypatch.setattr(connection, "_commit", lossy)


@pytest.mark.django_db(transaction=True)
def test_commit_whose_answer_is_lost_is_not_repeated(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = BatchCommitter()
    journal.commit([order(agent, "a")])
    answers_lost(monkeypatch, 1)
    outcomes = journal.commit([order(agent, "a"), order(agent, "b"), order(agent, "a")])
    assert [type(outcome) for outcome in outcomes] == [OrderReceipt] * 3
    assert Slot.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_commit_that_failed_is_refused_and_leaves_nothing(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = BatchCommitter()
    journal.commit([order(agent, "a")])

    def failing() -> None:
        getattr(connection, "_rollback")()  # noqa: B009 # untyped
        raise OperationalError("the connection was cut")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "_commit", failing)
        (outcome,) = journal.commit([order(agent, "a")])
    assert isinstance(outcome, UnavailableError)
    (again,) = journal.commit([order(agent, "a")])
    assert isinstance(again, OrderReceipt)
    assert again.seq == 3


def test_database_that_is_away_is_asked_once_for_all(agent: Agent) -> None:
    aliases = []

    def away(*arguments: Any) -> None:
        aliases.append(arguments[1])
        raise OperationalError("database is locked")

    with connection.execute_wrapper(away):
        outcomes = BatchCommitter().commit([order(agent, f"t-{n}") for n in range(8)])
    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 8
    # Not once for each of the eight, each with its own time-out.
    assert len(aliases) <= 3


def test_two_first_writes_to_one_name_share_their_batch(agent: Agent) -> None:
    orders = [order(agent, "new"), order(agent, "new"), order(agent, "other")]
    with CaptureQueriesContext(
        connection,
    ) as sent:
        outcomes = BatchCommitter().commit(orders)
    receipts = [outcome for outcome in outcomes if isinstance(outcome, OrderReceipt)]
    assert [receipt.seq for receipt in receipts] == [2, 3, 2]
    assert [receipt.created for receipt in receipts] == [True, False, True]
    heads = [query for query in sent if '"head_hash"' in query["sql"]]
    assert len([query for query in heads if query["sql"].startswith("SELECT")]) == 1


def test_damaged_thread_refuses_only_its_own_commands(agent: Agent) -> None:
    append(agent, "bad", "one")
    append(agent, "good", "one")
    Thread.objects.filter(name="bad").update(head_hash=bytes(32))
    outcomes = BatchCommitter().commit([order(agent, "good"), order(agent, "bad")])
    assert [type(outcome) for outcome in outcomes] == [OrderReceipt, CorruptError]
    # Restore the state for the check that ends every test.
    row = Event.objects.get(thread__name="bad", seq=2)
    Thread.objects.filter(name="bad").update(head_hash=bytes(row.chain))


def test_command_that_writes_nothing_still_warms_the_head(agent: Agent) -> None:
    append(agent, "t-1", "one")
    journal = BatchCommitter()
    close = Order(
        address=agent.address("t-1"), command=CloseThread(), actor=agent.actor
    )
    journal.commit([close])
    again = BatchCommitter()
    again.commit([close])
    with CaptureQueriesContext(connection) as sent:
        again.commit([close])
    assert not [query for query in sent if "memoryhub_event" in query["sql"]]


def test_snapshots_stay_rare_however_many_names_there_are(agent: Agent) -> None:
    for start in range(0, 3600, 60):
        fresh = [
            make_slot("x", from_name=f"from-{n}", type=f"type.n{n}")
            for n in range(start, start + 60)
        ]
        BatchCommitter().commit([order(agent, "t-1", *fresh)])
    state = Thread.objects.get(name="t-1")
    seqs = [*Snapshot.objects.order_by("seq").values_list("seq", flat=True)]
    assert 1 <= len(seqs) <= 3
    assert state.slot_count == 3600


def test_sender_names_beyond_a_bound_are_counted_together(agent: Agent) -> None:
    journal = BatchCommitter()
    for start in range(0, MAX_COUNTED + 60, 60):
        fresh = [make_slot("x", from_name=f"n-{n}") for n in range(start, start + 60)]
        journal.commit([order(agent, "t-1", *fresh)])
    head = journal.heads.find(agent.address("t-1"), "t-1")
    assert head is not None
    kept = journal.heads._kept.get(head.state.id)
    assert kept is not None
    senders = dict(kept.state.senders.items())
    assert len(senders) == MAX_COUNTED + 1
    assert sum(senders.values()) == get_thread(agent).slot_count
    assert senders[OTHER] == get_thread(agent).slot_count - MAX_COUNTED


def test_idempotency_key_answers_nobody_elses_subject(
    agent: Agent, acme: Project
) -> None:
    ann = make_thread(agent, "ann-1", user_id="ann").subject
    bob = make_thread(agent, "bob-1", user_id="bob").subject
    request = KeyedRequest(key="k", fingerprint=b"same")
    append(make_agent(acme, subject=ann), "ann-1", "secret", request=request)
    other = append(make_agent(acme, subject=bob), "ann-1", "secret", request=request)
    assert (other.replayed, other.created, other.subject) == (False, True, bob.id)


def test_idempotency_key_tells_nothing_of_the_erased(agent: Agent) -> None:
    request = KeyedRequest(key="k", fingerprint=b"same")
    append(agent, "t-1", "one", request=request)
    assert append(agent, "t-1", "one", request=request).replayed
    Subject.objects.update(state=Subject.State.ERASED)
    with pytest.raises(SubjectErasedError):
        append(agent, "t-1", "one", request=request)
