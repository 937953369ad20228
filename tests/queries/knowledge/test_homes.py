"""Homes: found by their subject, however many threads there are."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks, standing
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, say

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("sqlite")
def test_home_queries_of_a_turn_scan_no_table(agent: Agent) -> None:
    row = factories.make_thread(agent, "visit", user_id="ann")
    factories.append(agent, "visit", "I live in Bergen.")
    ann = forgetting.get_subject(agent, "ann")
    say(agent, ann, claim("Bergen", 0))
    with CaptureQueriesContext(connection) as queries:
        assert find_home(ann)
        assert Thread.objects.filter(subject=ann).count() == 2
        assert not blocks.list_carried(ann.project_id, "visit")
        assert not standing.list_marks(ann, [(row.id, 2)], at=clock.now())
    assert len(queries) == 6
    with connection.cursor() as cursor:
        for query in queries:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plan = " ".join(str(row[-1]) for row in cursor.fetchall())
            assert "SCAN" not in plan, query["sql"]
