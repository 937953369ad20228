"""Unhealthy threads found by the worker, and checks of the server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from memoryhub import journal
from memoryhub.journal import fold_thread
from memoryhub.journal.writing.activity import activity
from memoryhub.models.keys import KekCheck
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.onsets import find_onsets
from memoryhub.queries.overview.unhealthy import Unhealthy, UnhealthyItem
from memoryhub.queries.threads import catalogue, verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import DEFAULTS
from memoryhub.queries.verify.privacy_checks import BACKED_UP_WITHIN
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.keys import backup, keyring
from memoryhub.workers import stats
from memoryhub.workers.overview import unhealthy as worker
from tests.cast.factories import append, get_thread, make_thread
from tests.inspector.paged import ask, fetch, make_restless

# Counters are set by hand, so that each verdict is looked at alone.
pytestmark = [pytest.mark.django_db, pytest.mark.no_replay]


def get_unhealthy(project: Project) -> Unhealthy:
    now = timezone.now()
    stats.take(now)
    worker.look(now)
    return unhealthy.get_unhealthy(project, now=now)


def threads(project: Project) -> dict[str, UnhealthyItem]:
    things = get_unhealthy(project).things
    return {each.thread.name: each for each in things if each.thread}


def checks(project: Project) -> dict[str, UnhealthyItem]:
    things = get_unhealthy(project).things
    return {each.check.key: each for each in things if each.check}


def set_counters(thread: Thread, **counters: Any) -> None:
    Thread.objects.filter(id=thread.id).update(**counters)


def test_thread_that_thrashes_is_bad_since_the_turn_it_began(
    agent: Agent, acme: Project
) -> None:
    make_restless(agent, exchanges=8)
    (thing,) = threads(acme).values()
    assert [each.flag for each in thing.verdicts] == ["thrashing", "faulting"]
    assert thing.tone == "bad"
    # The third page that came back about as soon as it had left.
    assert thing.onset.turn == 3
    began = get_thread(agent, "restless").turns.get(n=3)
    event = get_thread(agent, "restless").events.get(seq=began.seq)
    assert thing.onset.at == event.at


def test_unhealthy_onset_stays_while_the_thread_continues(
    agent: Agent, acme: Project
) -> None:
    make_restless(agent, exchanges=8)
    before = threads(acme)["restless"].onset
    ask(agent, "restless", "And again?")
    fetch(agent, "restless", "note")
    assert threads(acme)["restless"].onset == before


def test_recovered_thread_is_not_listed_before_the_worker_looks(
    agent: Agent, acme: Project
) -> None:
    thread = make_restless(agent, exchanges=8)
    assert threads(acme)
    set_counters(thread, refault_count=0, faulted_lately_count=0)
    now = timezone.now()
    assert unhealthy.get_unhealthy(acme, now=now).threads == 0


def test_moved_thread_is_listed_before_the_worker_looks(
    agent: Agent, acme: Project
) -> None:
    set_counters(make_thread(agent, "full"), nearly_full=True)
    thread = make_thread(agent)
    assert [*threads(acme)] == ["full"]
    set_counters(thread, refault_count=3)
    whole = unhealthy.get_unhealthy(acme, now=timezone.now())
    assert (whole.threads, whole.more) == (2, 0)
    assert dict(whole.counts) == {"full": 1, "thrashing": 1}
    assert get_unhealthy(acme).threads == 2


@pytest.mark.parametrize(
    ("flag", "counters"),
    [
        ("thrashing", {"refault_count": 3}),
        ("faulting", {"exchange_count": 30, "faulted_lately_count": 11}),
        ("full", {"nearly_full": True}),
        ("missing", {"tlb_hits": 59, "tlb_misses": 41}),
    ],
)
def test_list_row_and_overview_have_the_same_verdict(
    agent: Agent, acme: Project, flag: str, counters: dict[str, Any]
) -> None:
    thread = make_thread(agent)
    make_thread(agent, "t-2")
    set_counters(thread, **counters)
    (thing,) = threads(acme).values()
    assert [each.flag for each in thing.verdicts] == [flag]
    now = timezone.now()
    rows = Thread.objects.filter(catalogue._FLAGS[flag](acme, now))
    assert [row.name for row in rows] == ["t-1"]
    assert (
        verdicts.find_in_line(ThreadLine.from_row(rows[0]), DEFAULTS) == thing.verdicts
    )


def test_refused_fetches_are_a_verdict_from_the_third_on(
    agent: Agent, acme: Project
) -> None:
    thread = make_thread(agent)
    for count in range(3):
        assert not threads(acme), count
        activity.count_refusal(acme.id, "fault_budget", thread.id)
        journal.run(activity.flush)
    thing = threads(acme)["t-1"]
    assert ([each.flag for each in thing.verdicts], thing.refused) == (["refused"], 3)
    now = timezone.now()
    rows = Thread.objects.filter(catalogue._FLAGS["refused"](acme, now))
    assert [row.name for row in rows] == ["t-1"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "closed"},
        {"listed_at": timezone.now() - timedelta(days=2)},
    ],
    ids=["closed", "unused"],
)
def test_unhealthy_list_omits_threads_that_nobody_continues(
    agent: Agent, acme: Project, change: dict[str, Any]
) -> None:
    thread = make_thread(agent)
    set_counters(thread, refault_count=9, **change)
    assert not threads(acme)


def test_closed_threads_that_thrashed_are_counted_apart_as_lists_find_them(
    agent: Agent, acme: Project
) -> None:
    now = timezone.now()
    calm: dict[str, Any] = {"status": "closed", "last_active_at": now}
    closed = calm | {"refault_count": 3}
    for name, change in (
        ("thrashed", closed),
        ("older", closed | {"last_active_at": now - timedelta(days=2)}),
        ("calm", calm),
        ("open", {"refault_count": 3}),
    ):
        set_counters(make_thread(agent, name), **change)
    assert verdicts.count_closed(acme, now) == {"thrashing": 1}


def test_threads_of_restricted_subjects_are_left_out(
    agent: Agent, acme: Project
) -> None:
    thread = make_thread(agent, user_id="ann")
    set_counters(thread, refault_count=9)
    assert threads(acme)
    Subject.objects.filter(id=thread.subject_id).update(state="restricted")
    assert not threads(acme)


def test_key_file_without_a_backup_needs_a_look(acme: Project) -> None:
    # A new hub has a day for its first backup.
    assert "backup-of-the-ring" not in checks(acme)
    made_at = timezone.now() - BACKED_UP_WITHIN
    KekCheck.objects.using("keys").update(created_at=made_at)
    thing = checks(acme)["backup-of-the-ring"]
    assert thing.tone == "attn"
    assert thing.check is not None
    assert thing.check.command == "keys backup FILE"
    assert thing.onset.at is not None
    backup.record(keyring.get_ring(), at=timezone.now())
    assert "backup-of-the-ring" not in checks(acme)


def test_unhealthy_list_puts_bad_before_attention(agent: Agent, acme: Project) -> None:
    for name, counters in (
        ("t-1", {"nearly_full": True}),
        ("t-2", {"refault_count": 4}),
    ):
        set_counters(make_thread(agent, name), **counters)
    things = get_unhealthy(acme).things
    tones = [each.tone for each in things]
    assert tones == sorted(tones, key=("bad", "attn").index)
    listed = [each.thread.name for each in things if each.thread]
    assert listed == ["t-2", "t-1"]


def test_every_page_counts_what_is_stored_with_one_query(
    agent: Agent, acme: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    set_counters(make_thread(agent), refault_count=4)
    now = timezone.now()
    before = unhealthy.get_counts(acme, now=now).unhealthy
    # Another process has looked than the one that is asked.
    worker.look(now)
    with django_assert_num_queries(1):
        assert unhealthy.get_counts(acme, now=now).unhealthy == before + 1
    assert get_unhealthy(acme).count == before + 1


def test_unhealthy_list_keeps_the_worst_and_counts_all(
    agent: Agent, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unhealthy, "KEPT", 2)
    for n in range(4):
        flag = {"refault_count": 3} if n == 3 else {"nearly_full": True}
        set_counters(make_thread(agent, f"t-{n}"), **flag)
    whole = get_unhealthy(acme)
    assert (whole.threads, whole.more) == (4, 2)
    listed = [each.thread.name for each in whole.things if each.thread]
    assert (len(listed), listed[0]) == (2, "t-3")


@pytest.mark.parametrize("count", [2, 12])
def test_unhealthy_check_costs_the_same_for_any_number_of_threads(
    agent: Agent,
    acme: Project,
    count: int,
    django_assert_max_num_queries: Any,
) -> None:
    for n in range(count):
        set_counters(make_thread(agent, f"t-{n}"), refault_count=4)
    get_unhealthy(acme)
    now = timezone.now()
    with django_assert_max_num_queries(5):
        worker.look(now)
    with django_assert_max_num_queries(33):
        unhealthy.get_unhealthy(acme, now=now)


def test_unhealthy_onsets_equal_those_of_the_fold(agent: Agent) -> None:
    """The oracle is the state at each turn's end: it holds only from the onset on."""
    make_restless(agent, exchanges=4)
    for n in range(12):
        ask(agent, "restless", f"And then, {n}?")
        if n > 6:
            fetch(agent, "restless", "note")
    thread = get_thread(agent, "restless")
    ends = [turn.seq - 1 for turn in thread.turns.order_by("n")][1:]
    states = [fold_thread(thread, seq).state for seq in [*ends, thread.head_seq]]
    holds = [each.paging.count_refaults(each.turn_count) >= 3 for each in states]
    assert holds[-1]
    assert [*holds].index(True) < [*holds].index(False, 3)
    began = len(holds) - [*reversed(holds)].index(False) + 1
    assert find_onsets(thread, ["thrashing"], DEFAULTS)["thrashing"].turn == began


def test_full_thread_is_full_since_the_message_that_made_it_so(agent: Agent) -> None:
    make_thread(agent, max_slots=10)
    append(agent, "t-1", *range(9))
    append(agent, "t-1", "the tenth")
    thread = get_thread(agent)
    assert thread.nearly_full
    slot = thread.slots.get(index=8)
    onset = find_onsets(thread, ["full"], DEFAULTS)["full"]
    assert onset.at == thread.events.get(seq=slot.seq).at
    assert onset.turn is None


def test_onset_is_unknown_for_a_thread_without_turns(agent: Agent) -> None:
    thread = make_thread(agent)
    found = find_onsets(thread, ["thrashing", "missing"], DEFAULTS)
    assert {each.at for each in found.values()} == {None}


def test_missing_stats_row_counts_as_healthy(acme: Project) -> None:
    ProjectStats.objects.all().delete()
    assert unhealthy.get_unhealthy(acme, now=timezone.now()).threads == 0
