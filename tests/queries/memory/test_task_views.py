"""Histories of the task and of a key are found among many other events."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.models.events import ChangesKeysOrTask
from memoryhub.queries.memory import key_views, task_views
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.oracles import memory_acts

pytestmark = [pytest.mark.django_db, pytest.mark.no_replay]


@pytest.mark.usefixtures("sqlite")
def test_histories_read_only_events_that_may_change_them(agent: Agent) -> None:
    factories.make_thread(agent, "busy")
    memory_acts.set_task(agent, "busy", status="running")
    memory_acts.set_key(agent, "seat", "12A", thread="busy")
    row = factories.get_thread(agent, "busy")
    with CaptureQueriesContext(connection) as asked:
        assert task_views.get_history(row).steps
        assert key_views.get_view(row, "seat").history
    plans = []
    for each in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {each['sql']}")
            plans.append(" ".join(str(line[-1]) for line in cursor.fetchall()))
    assert sum("event_keys_or_task" in plan for plan in plans) == 2


def test_index_holds_every_type_of_the_histories() -> None:
    sought = {*key_views.TYPES, *task_views.TYPES}
    assert sought == {*ChangesKeysOrTask.types}
