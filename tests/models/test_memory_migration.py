"""The migration that brings working memory: forth and back, on what is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from memoryhub.kernel import state_json
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild, recount
from tests.cast.factories import append, get_thread
from tests.models.migrated import guarded, migrate
from tests.oracles.memory_acts import MINUTE, NOON, at, restore, set_key, take
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "0005_pages", "0006_working_memory"


@pytest.fixture(autouse=True)
def migrated() -> Iterator[None]:
    """Whatever a test did, those after it find the tables as they should be."""
    yield
    migrate()


def stored(*models: Any) -> list[list[dict[str, Any]]]:
    return [[*model.objects.order_by("pk").values()] for model in models]


def test_forth_back_and_forth_keeps_every_event_and_its_guard(agent: Agent) -> None:
    """What the tables say is in the journal, and `rebuild` finds it there again."""
    append(agent, "t-1", "one", "two")
    with at(NOON):
        set_key(agent, "a", ttl=MINUTE)
        set_key(agent, "b")
        take(agent, "here")
        set_key(agent, "b", "other", ttl=MINUTE)
        restore(agent, "here")
    events, rows = stored(Event, Thread), stored(Key, DueValue)
    assert [len(each) for each in rows] == [2, 2]
    for _ in range(2):
        migrate(BEFORE)
        assert guarded()
        migrate(AFTER)
        assert guarded()
    migrate()
    assert stored(Event, Thread) == events
    rebuild(get_thread(agent))
    recount([get_thread(agent).subject_id])
    assert stored(Key, DueValue) == rows
    assert verify(get_thread(agent)) is None


def test_a_thread_from_before_working_memory_needs_no_rebuild(agent: Agent) -> None:
    append(agent, "t-1", "one", "two")
    migrate(BEFORE)
    migrate()
    assert verify(get_thread(agent)) is None
    set_key(agent, "a", ttl=MINUTE)
    assert Key.objects.count() == 1


def test_projects_of_before_keep_values_for_a_day(acme: Project) -> None:
    projects.let_expire(acme, default_ttl_seconds=60, grace_seconds=None)
    migrate(BEFORE)
    migrate()
    row = Project.objects.get(id=acme.id)
    assert (row.default_ttl_seconds, row.expired_value_grace_seconds) == (None, 86_400)
    assert (row.slug, row.max_threads) == (acme.slug, acme.max_threads)


def test_the_sweep_has_its_indexes() -> None:
    """By which it finds what is due without looking at all there is."""
    with connection.cursor() as cursor:
        found = {
            name: each["columns"]
            for table in ("memoryhub_key", "memoryhub_duevalue")
            for name, each in connection.introspection.get_constraints(
                cursor, table
            ).items()
        }
    assert found["key_project_expiry"] == ["project_id", "expires_at"]
    assert found["key_bytes"] == ["project_id", "bytes"]
    assert found["key_expiry"] == ["expires_at", "thread_id", "key"]
    assert found["due_value_at"] == ["project_id", "due_at", "thread_id", "seq"]


def test_snapshots_of_before_are_read_as_they_are(agent: Agent) -> None:
    """They tell of no working memory, since there was none."""
    append(agent, "t-1", "one")
    state = state_of(get_thread(agent))
    plain = state_json.to_json(state)
    del plain["memory"]
    assert state_json.from_json(plain) == state
