"""Counting of projects' activity in a process, added to the rows of all processes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub import journal
from memoryhub.journal.writing.activity import PLACES, activity
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.page_commands import FaultPage
from memoryhub.models.activity import ProjectHour, RefusalCount
from memoryhub.models.projects import Project
from memoryhub.queries.overview import series
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from memoryhub.workers import sweeping
from tests.cast import factories
from tests.inspector import forgotten
from tests.inspector.paged import ask, build_message, do, make_paged, make_restless

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 4, 12, 7, 30, tzinfo=UTC)
FIGURES = ("events", "turns", "exchanges", "faulted_exchanges", "faults", "refaults")


def flush() -> int:
    rows: int = journal.run(activity.flush)
    return rows


def get_figures(project: Project, minutes: int = 60) -> dict[str, int]:
    row = ProjectHour.objects.get(project=project, minutes=minutes)
    return {name: getattr(row, name) for name in FIGURES}


def test_project_counts_what_its_threads_do(agent: Agent, acme: Project) -> None:
    thread = make_restless(agent, exchanges=6)
    with time_machine.travel(NOON, tick=False):
        activity.clear()
        for n in range(2):
            ask(agent, "restless", f"Once more, {n}?")
        flush()
    after = factories.get_thread(agent, "restless")
    assert get_figures(acme) == {
        "events": after.head_seq - thread.head_seq,
        "turns": 2,
        "exchanges": 2,
        "faulted_exchanges": 0,
        "faults": 0,
        "refaults": 0,
    }


def test_counters_agree_with_the_thread(agent: Agent, acme: Project) -> None:
    row = make_restless(agent, exchanges=6)
    flush()
    found = get_figures(acme)
    assert found["events"] == row.head_seq
    assert found["turns"] == row.turn_count
    assert found["exchanges"] == row.exchange_count
    assert found["faulted_exchanges"] == row.faulted_exchange_count == 6
    assert found["faults"] == row.fault_count
    assert found["refaults"] == 6


def test_fork_adds_only_what_is_its_own(agent: Agent, acme: Project) -> None:
    row = make_restless(agent, exchanges=3)
    flush()
    before = get_figures(acme)
    operator_threads.fork(row, actor="operator:x", name="other", seq=row.head_seq)
    flush()
    after = get_figures(acme)
    assert after.pop("events") == before.pop("events") + 1
    assert after == before


def test_requests_are_counted_with_their_tokens(agent: Agent, acme: Project) -> None:
    row = make_paged(agent)
    flush()
    hour = ProjectHour.objects.get(project=acme, minutes=60)
    packed = row.events.filter(type="turn.packed").count()
    assert packed
    assert (hour.tokens, hour.prefix_tokens) == (row.request_tokens, row.prefix_tokens)
    assert hour.tokens > hour.prefix_tokens > 0
    assert hour.answer_tokens == row.answer_tokens > 0


def test_answers_are_timed_from_their_request(agent: Agent, acme: Project) -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        factories.make_thread(agent, "t-1", budget_tokens=4_000, reserved_tokens=800)
        for seconds in (1.5, 1.5, 70):
            ask(agent, "t-1", "Where is it?")
            travel.shift(timedelta(seconds=seconds))
            for text in ("In Oslo.", "I mean, Bergen."):
                answer = build_message("assistant", text)
                do(agent, "t-1", AppendSlots(slots=(answer,)))
        flush()
    noon = NOON.replace(minute=0, second=0)
    hour = ProjectHour.objects.get(project=acme, minutes=60, at=noon)
    assert (hour.answered_2000, hour.answered_later) == (2, 1)
    found = series.get_series(acme.id, series.RANGES["24h"], now=NOON).whole
    assert found.compute_answer_time(0.5) == pytest.approx(1_750)
    assert found.compute_answer_time(0.95) == 64_000


def test_each_flush_adds_to_three_stretches(agent: Agent, acme: Project) -> None:
    with time_machine.travel(NOON, tick=False) as travel:
        factories.append(agent, "t-1", "one")
        flush()
        travel.shift(timedelta(minutes=10))
        factories.append(agent, "t-1", "two")
        flush()
    rows = ProjectHour.objects.filter(project=acme).order_by("minutes", "at")
    found = [(row.minutes, row.at, row.events) for row in rows]
    hour = NOON.replace(minute=0, second=0)
    assert found == [
        (1, hour + timedelta(minutes=7), 2),
        (1, hour + timedelta(minutes=17), 1),
        (15, hour, 2),
        (15, hour + timedelta(minutes=15), 1),
        (60, hour, 3),
    ]


def test_commands_of_agents_are_timed(agent: Agent, acme: Project) -> None:
    factories.append(agent, "t-1", "one")
    factories.append(agent, "t-1", "two")
    flush()
    row = ProjectHour.objects.get(project=acme, minutes=60)
    every = [field.name for field in ProjectHour._meta.fields]
    columns = every[every.index("within_1") : every.index("slower") + 1]
    assert len(columns) == 11
    assert sum(getattr(row, name) for name in columns) == 2


def test_refused_fetches_are_counted_to_thread_and_project(
    agent: Agent, acme: Project
) -> None:
    thread = factories.make_thread(agent)
    for _ in range(2):
        do(agent, "t-1", FaultPage(page_id="slot-999", level=0))
    flush()
    (whole,) = RefusalCount.objects.filter(thread=None, minutes=60)
    (own,) = RefusalCount.objects.filter(thread=thread)
    assert (whole.project, whole.code, whole.count) == (acme, "page_unknown", 2)
    assert (own.minutes, own.code, own.count) == (60, "page_unknown", 2)


def test_refusal_finds_its_thread_by_name(agent: Agent, acme: Project) -> None:
    thread = factories.make_thread(agent)
    activity.count_refusal(acme.id, "no_room", ("t-1",))
    activity.count_refusal(acme.id, "no_room", ("nobody",))
    activity.count_refusal(acme.id, "rate", None)
    flush()
    assert RefusalCount.objects.get(thread=thread).count == 1
    whole = RefusalCount.objects.filter(thread=None, minutes=60)
    assert dict(whole.values_list("code", "count")) == {"no_room": 2, "rate": 1}


def test_thread_of_another_project_is_not_found(
    agent: Agent, stranger: Agent, acme: Project
) -> None:
    factories.make_thread(stranger, "theirs")
    activity.count_refusal(acme.id, "no_room", ("theirs",))
    flush()
    assert not RefusalCount.objects.filter(thread__isnull=False).exists()


def test_made_up_names_do_not_fill_the_memory(acme: Project) -> None:
    for n in range(PLACES + 50):
        activity.count_refusal(acme.id, "not_found", (f"t-{n}",))
    assert len(activity._refusals) <= PLACES + 1
    flush()
    whole = RefusalCount.objects.get(thread=None, minutes=60)
    assert whole.count == PLACES + 50


def test_activity_counts_survive_a_failed_flush(
    agent: Agent, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    activity.clear()
    factories.append(agent, "t-1", "one")
    counted = activity.sum_up().figures["events"]
    with monkeypatch.context() as patch:
        patch.setattr(
            "memoryhub.journal.writing.activity._count_by_thread", lambda _: 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            activity.flush()
    assert activity.sum_up().figures["events"] == counted
    flush()
    assert get_figures(acme)["events"] == 2
    assert activity.sum_up().figures["events"] == counted


def test_totals_agree_with_the_thread(agent: Agent) -> None:
    before = activity.sum_up()
    row = make_restless(agent, exchanges=6)
    flush()
    after = activity.sum_up()
    assert after.figures["faults"] - before.figures["faults"] == row.fault_count
    assert after.tlb_hits - before.tlb_hits == row.tlb_hits > 0
    assert sum(after.commits) > sum(before.commits)


@pytest.mark.parametrize("threads", [1, 12])
def test_flush_costs_the_same_for_any_number_of_threads(
    agent: Agent, threads: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for n in range(threads):
        factories.make_thread(agent, f"t-{n}")
        activity.count_refusal(agent.project, "no_room", (f"t-{n}",))
    # A savepoint, the names, the fence, what is there, and three inserts.
    with django_assert_num_queries(8):
        activity.flush()


def test_counts_are_kept_as_long_as_charts_show_them(
    agent: Agent, acme: Project
) -> None:
    thread = factories.make_thread(agent)
    activity.count_refusal(acme.id, "no_room", ("t-1",))
    flush()
    now = ProjectHour.objects.get(minutes=1).at
    kept = {1: timedelta(hours=3), 15: timedelta(days=3), 60: timedelta(days=32)}
    for minutes, age in kept.items():
        assert ProjectHour.objects.filter(minutes=minutes).exists()
        assert sweeping.delete_activity(now + age) >= 2
        assert not ProjectHour.objects.filter(minutes=minutes).exists()
        assert not RefusalCount.objects.filter(minutes=minutes).exists()
    assert not RefusalCount.objects.filter(thread=thread).exists()


@pytest.mark.django_db(transaction=True)
def test_thread_that_is_forgotten_takes_its_refusals_with_it(
    agent: Agent, acme: Project
) -> None:
    person = forgotten.make_person(agent, "ann")
    thread = person.threads.order_by("id")[0]
    activity.count_refusal(acme.id, "no_room", thread.id)
    flush()
    assert RefusalCount.objects.filter(thread=thread).exists()
    forgotten.finish(forgotten.confirm(forgotten.plan(person)))
    activity.count_refusal(acme.id, "no_room", thread.id)
    flush()
    assert not RefusalCount.objects.filter(thread=thread).exists()
    # The project's total of refusals belongs to no thread.
    assert RefusalCount.objects.get(thread=None, minutes=60).count == 2
