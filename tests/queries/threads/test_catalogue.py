"""The catalogue in every order: along an index, whatever the project holds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import catalogue
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("sort", catalogue.SORTS)
def test_thread_list_orders_use_an_index(
    acme: Project, agent: Agent, sort: str, rising: bool
) -> None:
    """A batch costs the same at 10,000 threads as at 100, the first and the next."""
    for n in range(4):
        factories.make_thread(agent, f"t-{n}")
    now, after = clock.now(), None
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            found = catalogue.list_threads(
                acme,
                terms=(),
                now=now,
                sort=sort,
                rising=rising,
                after=after,
                limit=2,
            )
        after = found.next
        (query,) = queries
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plan = " ".join(str(row[-1]) for row in cursor.fetchall())
        assert "USING INDEX thread_" in plan or "sqlite_autoindex" in plan, plan
        assert "TEMP B-TREE" not in plan
        assert "SCAN memoryhub_thread" not in plan


@pytest.mark.no_replay
def test_newest_event_is_first_although_the_index_lags(
    acme: Project, agent: Agent
) -> None:
    now = clock.now()
    for name, listed, newest in (("one", 1, 9), ("two", 2, 2), ("three", 3, 0)):
        thread = factories.make_thread(agent, name)
        Thread.objects.filter(id=thread.id).update(
            listed_at=now - timedelta(seconds=9 + listed),
            last_event_at=now - timedelta(seconds=newest),
        )
    found = catalogue.list_threads(acme, terms=(), now=now)
    assert [line.name for line in found.items] == ["three", "two", "one"]


def test_thread_totals_are_counted_up_to_a_bound(
    acme: Project, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        factories.make_thread(agent, f"t-{n}")
    monkeypatch.setattr(catalogue, "COUNTED", 3)
    assert catalogue.count_threads(acme, terms=(), now=clock.now()) == 3
