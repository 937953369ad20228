"""Checks of working memory: what a project is told of its keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryhub.models.projects import Project
from memoryhub.queries.verify import memory_checks
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.oracles import memory_acts
from tests.oracles.memory_acts import DAY, MINUTE, NOON, travel_to

pytestmark = pytest.mark.django_db


def test_memory_checks_count_the_keys_of_the_project(
    acme: Project, agent: Agent
) -> None:
    with travel_to(NOON):
        memory_acts.set_key(agent, "brief", ttl=MINUTE)
        memory_acts.set_key(agent, "soon", "x" * 140, ttl=30 * MINUTE)
        memory_acts.set_key(agent, "later", "x" * 20, ttl=DAY)
        memory_acts.set_key(agent, "ever", "x" * 90)
    now = NOON + 3 * MINUTE
    found = memory_checks.get_memory_checks(acme, now=now)
    assert (found.lag, found.swept, found.soon) == (2 * MINUTE, False, 1)
    # Expired keys are not listed, swept or not.
    assert [key.name for key in found.largest] == ["soon", "ever", "later"]
    assert (found.full, found.many) == ((), False)
    early = memory_checks.get_memory_checks(acme, now=NOON)
    assert (early.lag, early.swept, early.soon) == (timedelta(), True, 2)


def test_memory_checks_show_one_project_only(zeta: Project, agent: Agent) -> None:
    memory_acts.set_key(agent, "ours", ttl=MINUTE)
    found = memory_checks.get_memory_checks(zeta, now=NOON)
    assert (found.soon, found.largest, found.full) == (0, (), ())


@pytest.mark.parametrize(
    ("limits", "count", "full"),
    [
        ({"max_keys": 10}, 9, False),
        ({"max_keys": 10}, 10, True),
        ({"max_key_bytes": 700}, 9, False),
        ({"max_key_bytes": 700}, 10, True),
        ({}, 10, False),
    ],
)
def test_thread_that_is_nearly_full_is_named(
    acme: Project, agent: Agent, limits: dict[str, Any], count: int, *, full: bool
) -> None:
    factories.make_thread(agent, "t-1", **limits)
    for n in range(count):
        memory_acts.set_key(agent, f"k{n}", "abc")
    found = memory_checks.get_memory_checks(acme, now=NOON)
    assert found.full == (("t-1",) if full else ())


@pytest.mark.parametrize("count", [2, 30])
def test_memory_checks_cost_seven_queries(
    acme: Project, agent: Agent, count: int, django_assert_num_queries: Any
) -> None:
    for n in range(count):
        memory_acts.set_key(agent, f"k{n}", ttl=DAY, thread=f"t-{n % 7}")
    with django_assert_num_queries(7):
        memory_checks.get_memory_checks(acme, now=NOON)


def test_thread_full_of_expired_keys_is_not_full(agent: Agent) -> None:
    with travel_to(NOON):
        factories.make_thread(agent, max_keys=2)
        memory_acts.set_key(agent, "a", ttl=MINUTE)
        memory_acts.set_key(agent, "b", ttl=MINUTE)
    project = factories.get_thread(agent).project
    full = [
        memory_checks.get_memory_checks(project, now=moment).full
        for moment in (NOON, NOON + MINUTE)
    ]
    assert full == [("t-1",), ()]
