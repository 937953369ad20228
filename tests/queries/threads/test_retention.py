from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.terms import NumberSpan
from memoryhub.queries.threads import retention
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads, threads
from memoryhub.workers import retention as worker
from tests.cast import factories

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
NOW = timezone.now()


def idle(agent: Agent, name: str, days: float, **limits: Any) -> Thread:
    """Make a thread that was last active so many days before NOW."""
    with time_machine.travel(NOW - days * DAY, tick=False):
        return factories.make_thread(agent, name, **limits)


def fork(agent: Agent, name: str, parent: str, days: float, **limits: Any) -> Thread:
    row = factories.get_thread(agent, parent)
    command = threads.build_fork(
        row,
        row.head_seq,
        scope=ScopeLabels(),
        labels=None,
        config=ThreadConfig(**limits),
    )
    with time_machine.travel(NOW - days * DAY, tick=False):
        factories.run(threads.fork(agent=agent, name=name, command=command))
    return factories.get_thread(agent, name)


def list_due(project: Project, at: datetime = NOW) -> set[str]:
    return {row.name for row in retention.filter_due(project, at=at)}


def list_counts(project: Project) -> list[int]:
    return [each.count for each in retention.list_horizons(project, now=NOW)]


@pytest.fixture
def family(agent: Agent, acme: Project) -> None:
    """Threads of all sorts, under a policy of 30 days.

    `root` idles for 50 days, but `leaf` was forked of its fork 9 days ago.
    """
    # Agents may have days of their own that are no fewer than the project's, which the
    # owner raises later.
    projects.set_retention(acme, idle_days=2)
    idle(agent, "over", 31)
    idle(agent, "young", 3)
    idle(agent, "in-5", 25)
    idle(agent, "in-12", 18)
    idle(agent, "patient", 200, retention_idle_days=300)
    idle(agent, "hasty", 6, retention_idle_days=5)
    idle(agent, "root", 50)
    fork(agent, "stem", "root", 45, retention_idle_days=2)
    fork(agent, "leaf", "stem", 9, retention_idle_days=None)
    projects.set_retention(acme, idle_days=30)


def test_retention_is_never_due_without_a_policy(agent: Agent, acme: Project) -> None:
    idle(agent, "t-1", 5_000)
    assert list_counts(acme) == [0, 0, 0]
    assert retention.count_soon(acme, now=NOW) == 0
    assert retention.get_due_at(factories.get_thread(agent)) is None


def test_horizons_count_what_is_due_by_then(family: None, acme: Project) -> None:
    now, week, month = retention.list_horizons(acme, now=NOW)
    assert [now.count, week.count, month.count] == [3, 4, 8]
    assert [line.name for line in now.first] == ["stem", "over", "hasty"]
    assert [line.name for line in week.first] == ["in-5"]
    assert [line.name for line in month.first] == ["in-12", "root", "leaf", "young"]
    assert not any(each.further or each.capped for each in (now, week, month))
    assert month.first[0].due_at == NOW + 12 * DAY
    assert retention.count_soon(acme, now=NOW) == week.count


def test_forks_activity_is_that_of_all_it_came_from(family: None, agent: Agent) -> None:
    due_at = {name: _due_at(agent, name) for name in ("root", "stem", "leaf")}
    leaf = NOW - 9 * DAY
    assert due_at == {
        "root": leaf + 30 * DAY,
        "stem": leaf + 2 * DAY,
        "leaf": leaf + 30 * DAY,
    }


def _due_at(agent: Agent, name: str) -> datetime | None:
    row = Thread.objects.select_related("project").get(project=agent.project, name=name)
    return retention.get_due_at(row)


def test_worker_retires_what_the_preview_shows(
    family: None, agent: Agent, acme: Project
) -> None:
    """Both agree now and on each of the days to come, whatever was retired before."""
    seen = {row.name: _due_at(agent, row.name) for row in Thread.objects.all()}
    (now, *_) = retention.list_horizons(acme, now=NOW)
    assert {line.name for line in now.first} == list_due(acme)
    retired: set[str] = set()
    for day in range(40):
        at = NOW + day * DAY
        wanted = {name for name, when in seen.items() if when and when <= at}
        assert list_due(acme, at) == wanted - retired
        assert worker.retire(at) == len(wanted - retired)
        rows = Thread.objects.filter(status="retired")
        assert {row.name for row in rows} == wanted
        retired = wanted
    assert retired == {*seen} - {"patient"}


def test_retention_day_is_exact_to_the_microsecond(agent: Agent, acme: Project) -> None:
    projects.set_retention(acme, idle_days=30)
    active = idle(agent, "t-1", 30).last_active_at
    assert active is not None
    own = idle(agent, "t-2", 30, retention_idle_days=30).last_active_at
    assert own == active
    assert list_due(acme, active + 30 * DAY - timedelta(microseconds=1)) == set()
    assert list_due(acme, active + 30 * DAY) == {"t-1", "t-2"}


def test_policy_is_previewed_without_being_saved(family: None, acme: Project) -> None:
    acme.retention_idle_days = 2
    assert list_counts(acme) == [8, 8, 8]
    acme.retention_idle_days = None
    assert list_counts(acme) == [2, 2, 2]
    acme.refresh_from_db()
    assert acme.retention_idle_days == 30


def test_retention_is_never_due_for_an_erasing_subject(
    family: None, agent: Agent, acme: Project
) -> None:
    closed = factories.get_thread(agent, "over")
    with time_machine.travel(NOW - 31 * DAY, tick=False):
        operator_threads.close(closed, actor="worker:x", reason="archived")
    assert "over" in list_due(acme)
    Subject.objects.update(state=Subject.State.RESTRICTED)
    assert list_counts(acme) == [3, 4, 8]
    Subject.objects.update(state=Subject.State.ERASING)
    assert list_counts(acme) == [0, 0, 0]
    Subject.objects.update(state=Subject.State.ACTIVE)


def test_retention_counts_one_project_only(
    family: None, stranger: Agent, zeta: Project
) -> None:
    idle(stranger, "theirs", 400)
    assert list_due(zeta) == set()
    projects.set_retention(zeta, idle_days=1)
    assert list_due(zeta) == {"theirs"}


@pytest.mark.parametrize(
    ("span", "names"),
    [
        (NumberSpan(high=0), {"stem", "over", "hasty"}),
        (NumberSpan(low=0, high=7 * 86_400, low_open=True), {"in-5"}),
        (NumberSpan(low=20 * 86_400, high=22 * 86_400), {"root", "leaf"}),
        (NumberSpan(low=30 * 86_400), {"patient"}),
    ],
)
def test_due_threads_are_listed_by_span_of_days(
    family: None, acme: Project, span: NumberSpan, names: set[str]
) -> None:
    found = retention.filter_due_in(acme, span, now=NOW)
    assert {row.name for row in found} == names


def test_retention_counts_end_at_a_bound(
    family: None, acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "COUNTED", 4)
    monkeypatch.setattr(retention, "SHOWN", 2)
    now, week, month = retention.list_horizons(acme, now=NOW)
    assert [now.count, week.count, month.count] == [3, 4, 4]
    assert [now.capped, week.capped, month.capped] == [False, True, True]
    assert (len(now.first), now.further, month.further) == (2, 1, 0)


@pytest.mark.parametrize("size", [2, 40])
def test_retention_forecast_costs_one_query(
    agent: Agent, acme: Project, size: int, django_assert_num_queries: Any
) -> None:
    projects.set_retention(acme, idle_days=30)
    for n in range(size):
        idle(agent, f"t-{n}", 31)
    thread = Thread.objects.select_related("project").first()
    assert thread is not None
    with django_assert_num_queries(1):
        assert list_counts(acme)[0] == size
    with django_assert_num_queries(1):
        assert retention.count_soon(acme, now=NOW) == size
    with django_assert_num_queries(1):
        assert retention.get_due_at(thread) == NOW - DAY
