from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from memoryhub import journal
from memoryhub.errors import StaleError, ThreadErasedError
from memoryhub.journal import Order
from memoryhub.journal.log.log import to_recorded
from memoryhub.journal.writing.writer import BatchCommitter, writer
from memoryhub.kernel.commands import AmendThread, CloseThread
from memoryhub.kernel.state.events import ThreadConfig, ThreadRetired
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.erasures import Erasure, Hold, Receipt
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasures import CLOSED
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.threads import threads
from memoryhub.workers import listing, retention
from tests.cast.factories import append, get_thread, make_thread, run

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def keep_for(project: Project, days: int | None) -> None:
    project.retention_idle_days = days
    project.save(update_fields=["retention_idle_days"])


def fork(agent: Agent, name: str, parent: str) -> None:
    row = get_thread(agent, parent)
    command = threads.build_fork(
        row, row.head_seq, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    run(threads.fork(agent=agent, name=name, command=command))


def statuses(agent: Agent, *names: str) -> list[str]:
    return [get_thread(agent, name).status for name in names]


def test_retention_retires_nothing_without_a_policy(agent: Agent) -> None:
    append(agent, "t-1", "one")
    assert retention.retire(timezone.now() + 400 * DAY) == 0


def test_idle_thread_is_retired_by_an_event(agent: Agent, acme: Project) -> None:
    keep_for(acme, 30)
    append(agent, "t-1", "one", "two")
    active = get_thread(agent).last_active_at
    assert active is not None
    assert retention.retire(active + 30 * DAY - timedelta(seconds=1)) == 0
    assert retention.retire(active + 33 * DAY) == 1
    row = get_thread(agent)
    assert row.status == "retired"
    last = to_recorded(Event.objects.get(thread=row, seq=row.head_seq))
    assert isinstance(last.event, ThreadRetired)
    assert last.actor == "worker:retention"
    assert (last.event.policy_days, last.event.idle_days) == (30, 33)
    assert last.event.last_active_seq == row.head_seq - 1
    with pytest.raises(ThreadErasedError):
        append(agent, "t-1", "late")
    assert retention.retire(active + 90 * DAY) == 0


def test_closed_thread_is_retired_as_well(agent: Agent, acme: Project) -> None:
    keep_for(acme, 30)
    append(agent, "t-1", "one")
    close = Order(
        address=agent.address("t-1"), command=CloseThread(), actor=agent.actor
    )
    journal.perform(close)
    assert retention.retire(timezone.now() + 31 * DAY) == 1


@pytest.mark.parametrize(("own", "project", "retired"), [(90, 30, 0), (10, None, 1)])
def test_threads_own_policy_counts_first(
    agent: Agent, acme: Project, own: int, project: int | None, retired: int
) -> None:
    # When it was made, the project asked for no more.
    keep_for(acme, own)
    make_thread(agent, "t-1", retention_idle_days=own)
    keep_for(acme, project)
    assert retention.retire(timezone.now() + 31 * DAY) == retired


def test_retention_counts_only_activity(agent: Agent, acme: Project) -> None:
    """Work by workers, and reading, do not prolong the life of a thread."""
    keep_for(acme, 30)
    append(agent, "t-1", "one")
    append(agent, "t-1", "two")
    later = timezone.now() + 20 * DAY
    with time_machine.travel(later, tick=False):
        writer.journal = BatchCommitter()
        command = AmendThread(labels={"seen": True})
        address = agent.address("t-1")
        order = Order(address=address, command=command, actor="worker:observing")
        journal.perform(order)
        listing.bring_up(later)
        row = get_thread(agent)
        journal.fold_thread(row, row.head_seq)
        assert row.last_active_at is not None
        assert row.last_event_at > row.last_active_at
        assert retention.retire(later) == 0
    assert retention.retire(timezone.now() + 31 * DAY) == 1


@pytest.mark.parametrize("actor", ["operator:1", "import"])
def test_operators_and_imports_count_as_activity(
    agent: Agent, acme: Project, actor: str
) -> None:
    keep_for(acme, 30)
    append(agent, "t-1", "one")
    later = timezone.now() + 20 * DAY
    with time_machine.travel(later, tick=False):
        command = AmendThread(labels={"seen": True})
        address = agent.address("t-1")
        journal.perform(Order(address=address, command=command, actor=actor))
    assert retention.retire(later + 29 * DAY) == 0
    assert retention.retire(later + 31 * DAY) == 1


def test_active_fork_keeps_all_its_ancestors(agent: Agent, acme: Project) -> None:
    keep_for(acme, 30)
    append(agent, "old", "one")
    fork(agent, "child", "old")
    fork(agent, "grandchild", "child")
    later = timezone.now() + 31 * DAY
    with time_machine.travel(later - DAY, tick=False):
        append(agent, "grandchild", "still here")
    assert retention.retire(later) == 0
    assert statuses(agent, "old", "child", "grandchild") == ["open"] * 3
    assert retention.retire(later + 31 * DAY) == 3


def test_thread_that_moved_meanwhile_is_left_alone(agent: Agent, acme: Project) -> None:
    keep_for(acme, 30)
    append(agent, "t-1", "one")
    seen = get_thread(agent)
    append(agent, "t-1", "two")
    order = retention.build_order(seen, days=30, now=timezone.now() + 31 * DAY)
    with pytest.raises(StaleError):
        journal.perform(order)


def test_many_threads_are_retired_in_batches(
    agent: Agent, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    keep_for(acme, 30)
    for n in range(5):
        append(agent, f"t-{n}", "one")
    assert retention.retire(timezone.now() + 31 * DAY) == 5


def hand_in(agent: Agent) -> list[Erasure]:
    """Hand in once, and run every erasure to its end."""
    retention.hand_in(timezone.now())
    rows = Erasure.objects.exclude(state__in=CLOSED)
    return [finish(row) for row in rows]


def finish(row: Erasure) -> Erasure:
    for _ in Erasure.State.values:
        row = erasures.advance_erasure(row)
    return row


@pytest.mark.django_db(transaction=True)
def test_retired_thread_is_erased_for_retention(agent: Agent, acme: Project) -> None:
    """The reason is `retention`, and the policy stands in place of a confirmation."""
    keep_for(acme, 30)
    make_thread(agent, "ann-1", user_id="ann")
    append(agent, "ann-1", "one")
    with time_machine.travel(timezone.now() + 31 * DAY, tick=False):
        make_thread(agent, "ann-2", user_id="ann")
        append(agent, "ann-2", "the twin, which is in use")
        assert retention.retire(timezone.now()) == 1
        (row,) = hand_in(agent)
        assert (row.state, row.reason) == ("complete", "retention")
        assert (row.actor, row.scope) == ("worker:retention", "thread")
        assert Receipt.objects.filter(erasure=row).count() == 1
        assert not Thread.objects.filter(name="ann-1").exists()
        assert statuses(agent, "ann-2") == ["open"]
        assert hand_in(agent) == []


@pytest.mark.django_db(transaction=True)
def test_threads_of_a_subject_are_erased_one_after_the_other(
    agent: Agent, acme: Project
) -> None:
    keep_for(acme, 30)
    for user_id in ("ann", "bob"):
        for n in range(2):
            make_thread(agent, f"{user_id}-{n}", user_id=user_id)
    with time_machine.travel(timezone.now() + 31 * DAY, tick=False):
        assert retention.retire(timezone.now()) == 4
        assert [len(hand_in(agent)) for _ in range(3)] == [2, 2, 0]
    assert {*Thread.objects.values_list("status", flat=True)} == {"erased"}


def test_held_or_restricted_thread_is_not_erased_by_retention(
    agent: Agent, acme: Project
) -> None:
    keep_for(acme, 30)
    for user_id in ("held", "restricted"):
        make_thread(agent, f"{user_id}-1", user_id=user_id)
    later = timezone.now() + 31 * DAY
    assert retention.retire(later) == 2
    held = Subject.objects.get(threads__name="held-1")
    Hold.objects.create(
        project=acme,
        subject=held,
        basis="legal_claims",
        opened_by="command",
        opened_at=timezone.now(),
        expires_at=later + DAY,
    )
    restricted = Subject.objects.filter(threads__name="restricted-1")
    restricted.update(state="restricted", basis="claims")
    assert retention.hand_in(later) == 0
    assert not Erasure.objects.exists()
    restricted.update(state="active", basis="")
    assert retention.hand_in(later) == 1
