from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from memoryhub.journal import Order, perform
from memoryhub.kernel.commands import CloseThread
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import stats
from tests.cast.factories import append, get_thread, make_thread

pytestmark = pytest.mark.django_db


def test_project_stats_sum_up_the_threads(
    agent: Agent, stranger: Agent, zeta: Project
) -> None:
    append(agent, "t-1", "one", "two")
    append(agent, "t-2", "three")
    append(stranger, "t-1", "four")
    perform(
        Order(address=agent.address("t-2"), command=CloseThread(), actor=agent.actor)
    )
    now = timezone.now()
    assert stats.take(now) == 2
    taken = ProjectStats.objects.get(project=agent.project)
    rows = [get_thread(agent, name) for name in ("t-1", "t-2")]
    assert taken.taken_at == now
    assert (taken.open_threads, taken.closed_threads, taken.retired_threads) == (
        1,
        1,
        0,
    )
    assert taken.slots == 3
    assert taken.tokens == sum(row.token_count for row in rows) > 0
    assert taken.bytes == sum(row.byte_count for row in rows) > 0
    assert ProjectStats.objects.get(project=zeta).slots == 1


def test_threads_over_ninety_percent_are_counted(agent: Agent) -> None:
    make_thread(agent, "t-1", max_slots=10)
    make_thread(agent, "t-2", max_slots=10)
    append(agent, "t-1", *range(9))
    append(agent, "t-2", *range(8))
    stats.take(timezone.now())
    assert ProjectStats.objects.get(project=agent.project).nearly_full_threads == 1


def test_project_whose_row_is_missing_gets_one(acme: Project) -> None:
    ProjectStats.objects.all().delete()
    stats.take(timezone.now())
    assert ProjectStats.objects.get(project=acme).slots == 0


@pytest.mark.parametrize("threads", [1, 12])
def test_stats_cost_three_statements(
    agent: Agent, threads: int, django_assert_num_queries: Any
) -> None:
    for n in range(threads):
        append(agent, f"t-{n}", "one")
    with django_assert_num_queries(3):
        stats.take(timezone.now())
