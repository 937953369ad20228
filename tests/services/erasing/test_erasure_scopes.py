from __future__ import annotations

from datetime import datetime, timedelta

import orjson
import pytest
import time_machine
from django.utils import timezone

from memoryhub.errors import (
    ThreadErasedError,
    ValueErasedError,
)
from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasure_steps, erasures, ledger_targets
from memoryhub.services.memory.working_memory import submit_command
from memoryhub.services.threads import episodes
from memoryhub.services.threads.episodes import NewEpisode
from memoryhub.vault.proof import ledger
from tests.cast.factories import append, get_thread, make_page, run
from tests.cast.forgetting import (
    confirm,
    finish,
    get_subject,
    list_records,
    make_person,
    plan,
)
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann", threads=2)


@pytest.fixture(autouse=True)
def bob(agent: Agent) -> Subject:
    """Make the twin: the same texts of another subject, which must all stay."""
    return make_person(agent, "bob")


def list_sealed_seqs(name: str) -> list[int]:
    rows = Event.objects.filter(thread__name=name, payload__isnull=False)
    return [*rows.order_by("seq").values_list("seq", flat=True)]


def test_thread_erasure_leaves_other_threads_alone(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    before = list_records(bob), list_sealed_seqs("ann-2")
    thread = get_thread(agent, "ann-1")
    row = finish(confirm(plan(ann, "thread", thread=thread)))
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    states = [*orjson.loads(row.times)]
    assert {"tombstoned", "fenced"} < {*states}
    assert "key_destroyed" not in states
    thread.refresh_from_db()
    assert (thread.status, thread.name[0]) == (Thread.Status.ERASED, "~")
    assert not any(erasure_counts.count_thread(thread.id).values())
    with pytest.raises(ThreadErasedError):
        append(agent, "ann-1", "Under the same name?")
    append(agent, "ann-2", "In another thread of hers.")
    assert list_records(bob) == before[0]
    assert list_sealed_seqs("ann-2")[: len(before[1])] == before[1]
    line = ErasureLine.from_row(row)
    for place in line.places:
        assert place.erased == place.fenced == place.erase, place


def test_value_of_an_erased_thread_may_not_be_written_again(
    agent: Agent, ann: Subject
) -> None:
    text = "Her knee was operated on in the spring of last year."
    make_page(agent, "health", thread="ann-1", text=text)
    thread = get_thread(agent, "ann-1")
    finish(confirm(plan(ann, "thread", thread=thread)))
    assert Tombstone.objects.filter(subject=ann, kind="value").exists()
    with pytest.raises(ValueErasedError):
        make_page(agent, "again", thread="ann-2", text=text.upper())
    # Another subject may write the same value.
    make_page(agent, "again", thread="bob-1", text=text)


def test_value_of_a_retired_thread_may_be_written_again(
    agent: Agent, ann: Subject
) -> None:
    text = "Fares of class Q can be changed once, for a fee of fifty euros."
    make_page(agent, "fares", thread="ann-1", text=text)
    thread = get_thread(agent, "ann-1")
    row = confirm(plan(ann, "thread", thread=thread, reason="retention"))
    assert finish(row).state == State.COMPLETE
    assert not Tombstone.objects.filter(kind="value").exists()
    make_page(agent, "fares", thread="ann-2", text=text)


def test_erased_tools_may_be_set_again(agent: Agent, ann: Subject) -> None:
    """Accept erased tools again, since an agent sends its tools with each turn."""
    tools = SetTools(
        definitions=b'[{"description":"Finds a flight by its number."}]',
        names=("find",),
        tokens=9,
    )
    for _ in range(2):
        made = submit_command(agent=agent, thread="ann-1", command=tools)
        seq = run(made).seq
        thread = get_thread(agent, "ann-1")
        finish(confirm(plan(ann, "record", thread=thread, seq=seq)))
        assert seq not in list_sealed_seqs("ann-1")


def test_erased_record_keeps_its_place(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    before, sealed = list_records(bob), list_sealed_seqs("ann-1")
    thread = get_thread(agent, "ann-1")
    row = plan(ann, "record", thread=thread, seq=sealed[0])
    assert {p.place: p.erase for p in ErasureLine.from_row(row).places}["events"] == 1
    row = finish(confirm(row))
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    assert list_sealed_seqs("ann-1") == sealed[1:]
    append(agent, "ann-1", "The thread lives on.")
    assert list_records(bob) == before
    line = ErasureLine.from_row(row)
    for place in line.places:
        assert place.erased == place.fenced == place.erase, place


def test_scope_before_erases_older_records_alone(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    before, old = list_records(bob), list_sealed_seqs("ann-1")
    with time_machine.travel(timezone.now() + timedelta(days=2), tick=False):
        append(agent, "ann-1", "Two days later.")
        moment = timezone.now() - timedelta(days=1)
        row = plan(ann, "before", before=moment)
        assert ErasureLine.from_row(row).threads == 2
        row = finish(confirm(row))
        # A second plan finds nothing left.
        again = plan(get_subject(agent, "ann"), "before", before=moment)
        assert ErasureLine.from_row(again).count == 0
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    left = list_sealed_seqs("ann-1")
    assert len(left) == 1
    assert left[0] > old[-1]
    assert list_sealed_seqs("ann-2") == []
    assert list_records(bob) == before


def remember(agent: Agent, subject: Subject, thread: str, at: datetime) -> list[int]:
    """Append an exchange that took place at `at`; returns its seqs."""
    new = NewEpisode(question="Which seat?", answer="12A.", occurred_at=at)
    made = run(
        episodes.append_episode(
            agent=agent, subject=subject.id, thread=thread, episode=new
        )
    )
    return [made.seq - 1, made.seq]


def test_scope_before_erases_what_happened_before_and_was_recorded_later(
    agent: Agent, ann: Subject
) -> None:
    now = timezone.now()
    old = remember(agent, ann, "ann-1", now - timedelta(days=400))
    other = remember(agent, ann, "ann-2", now - timedelta(days=400))
    remember(agent, ann, "ann-1", now - timedelta(days=2))
    moment = now - timedelta(days=365)
    # Nothing was recorded before that time.
    recorded = plan(ann, "before", before=moment, clocked="recorded")
    assert (line := ErasureLine.from_row(recorded)).count == 0
    assert line.clock == "recorded"
    erasures.cancel(recorded, actor="command")
    sealed = list_sealed_seqs("ann-1"), list_sealed_seqs("ann-2")
    row = plan(ann, "before", before=moment, thread=get_thread(agent, "ann-1"))
    assert ErasureLine.from_row(row).clock == "occurred"
    # Imported between the plan and the fence: the fence finds it too.
    confirmed = confirm(row)
    late = remember(agent, ann, "ann-1", now - timedelta(days=500))
    row = finish(confirmed)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    assert not {*old, *late} & {*list_sealed_seqs("ann-1")}
    assert {*list_sealed_seqs("ann-1")} == {*sealed[0]} - {*old}
    # The thread narrows the scope: the other thread keeps what is as old.
    assert list_sealed_seqs("ann-2") == sealed[1]
    assert {*other} < {*sealed[1]}
    receipt = orjson.loads(Receipt.objects.get(erasure=row).text)
    assert receipt["clock"] == "occurred"
    assert receipt["before"] == moment.isoformat(timespec="microseconds")
    intent = next(each for each in ledger.iter_lines() if each.erasure == row.id)
    wish = ledger_targets.parse_before(intent)
    assert (wish["clock"], wish["thread"].name) == ("occurred", "ann-1")


def test_stored_plan_without_a_clock_goes_on_by_recorded_time(
    agent: Agent, ann: Subject
) -> None:
    """Go on as it began: plans of earlier versions name no clock."""
    old = remember(agent, ann, "ann-1", timezone.now() - timedelta(days=400))
    append(agent, "ann-2", "Now.")
    with time_machine.travel(timezone.now() + timedelta(days=2), tick=False):
        later = remember(agent, ann, "ann-2", timezone.now() - timedelta(days=400))
        row = plan(
            ann,
            "before",
            before=timezone.now() - timedelta(days=1),
            clocked="recorded",
        )
        planned = orjson.loads(row.planned)
        del planned["clock"]
        row.planned = erasure_steps.to_json(planned)
        row.save()
        row = finish(confirm(row))
    assert row.state == State.COMPLETE
    assert not {*old} & {*list_sealed_seqs("ann-1")}
    assert list_sealed_seqs("ann-2") == later
    assert ErasureLine.from_row(row).clock == "recorded"


def test_fork_keeps_no_content_of_its_erased_parent(agent: Agent, ann: Subject) -> None:
    parent = get_thread(agent, "ann-1")
    fork(agent, "ann-1", "ann-fork")
    append(agent, "ann-fork", "This is the fork's own.")
    row = plan(ann, "thread", thread=parent)
    line = ErasureLine.from_row(row)
    assert line.forks == 1
    assert {p.place: p.why for p in line.places if p.keep}["slots"] == "fork"
    row = finish(confirm(row))
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    assert not Event.objects.filter(thread=parent, payload__isnull=False).exists()
    assert len(list_sealed_seqs("ann-fork")) == 1
    append(agent, "ann-fork", "It lives.")
    # The parent's remaining rows go with its last fork.
    last = get_thread(agent, "ann-fork")
    row = finish(confirm(plan(get_subject(agent, "ann"), "thread", thread=last)))
    assert row.state == State.COMPLETE
    assert not any(erasure_counts.count_thread(parent.id).values())


def test_fork_of_an_erased_fork_reads_through_both(agent: Agent, ann: Subject) -> None:
    fork(agent, "ann-1", "ann-fork")
    append(agent, "ann-fork", "This goes with the fork.")
    fork(agent, "ann-fork", "ann-twig")
    for name in ("ann-fork", "ann-1"):
        row = plan(get_subject(agent, "ann"), "thread", thread=get_thread(agent, name))
        line = ErasureLine.from_row(row)
        assert (line.forks, "names_in_forks" in line.residue) == (1, True)
        row = finish(confirm(row))
        assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    append(agent, "ann-twig", "It lives.")
