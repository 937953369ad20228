"""Flags of the facets, counted over all threads of a project."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.models.activity import RefusalCount
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import facets
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories

pytestmark = [pytest.mark.django_db, pytest.mark.no_replay]


@pytest.fixture
def flagged(agent: Agent, acme: Project) -> Project:
    """One thread of each of `full`, `refused` and `due`, among others."""
    for name in ("full", "refused", "plain", "due", "late"):
        factories.make_thread(agent, name)
    for name, days in (("due", 7), ("late", 90)):
        config = f'{{"retention_idle_days":{days}}}'
        Thread.objects.filter(name=name).update(config=config)
    Thread.objects.filter(name="full").update(nearly_full=True)
    refused = factories.get_thread(agent, "refused")
    RefusalCount.objects.create(
        project=acme,
        thread=refused,
        minutes=60,
        at=timezone.now() - timedelta(minutes=10),
        code="no_room",
        count=3,
    )
    return acme


def count_flags(project: Project) -> dict[str, int]:
    found = facets.get_facets(project, terms=(), now=timezone.now())
    flags = next(each for each in found.facets if each.key == "flag")
    return {each.value: each.count for each in flags.choices}


def test_facets_count_threads_that_are_full_refused_or_due(flagged: Project) -> None:
    assert count_flags(flagged) == {"full": 1, "refused": 1, "due": 1}
    flagged.retention_idle_days = 1
    assert count_flags(flagged) == {"full": 1, "refused": 1, "due": 4}


@pytest.mark.usefixtures("sqlite")
def test_facets_read_only_threads_that_may_be_full_or_due(flagged: Project) -> None:
    with CaptureQueriesContext(connection) as asked:
        count_flags(flagged)
    plans = []
    for each in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {each['sql']}")
            plans.append(" ".join(str(row[-1]) for row in cursor.fetchall()))
    for index in ("thread_nearly_full", "thread_own_retention"):
        assert sum(index in plan for plan in plans) == 1
