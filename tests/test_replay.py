"""The check after each test: what it looks at, and that it sees."""

from __future__ import annotations

import pytest
from django.db import connection

from memoryhub.models.projects import Instance, Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from tests import replay
from tests.cast import factories


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("INSERT INTO memoryhub_turn (n) SELECT 1 WHERE 1 = 0", "memoryhub_turn"),
        ('UPDATE "memoryhub_slot" SET seq = 1 WHERE 1 = 0', "memoryhub_slot"),
        ('DELETE FROM "memoryhub_slot" WHERE 1 = 0', "memoryhub_slot"),
        ("SELECT 1", None),
    ],
)
@pytest.mark.django_db
def test_a_write_is_noted_by_its_table(sql: str, table: str | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
    assert replay.written == ({table} if table else set())


@pytest.mark.no_replay
@pytest.mark.django_db
def test_what_a_test_damages_is_found(
    agent: Agent, request: pytest.FixtureRequest
) -> None:
    factories.append(agent, "t-1", "one")
    replay.check(request.node, committed=False)
    Thread.objects.update(slot_count=7)
    with pytest.raises(AssertionError):
        replay.check(request.node, committed=False)


@pytest.mark.no_replay
@pytest.mark.django_db
def test_who_only_makes_a_key_is_checked_by_the_log_alone(
    acme: Project, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay.check(request.node, committed=False)
    looked = list[str]()
    monkeypatch.setattr(replay, "assert_all_replay", lambda: looked.append("journal"))
    factories.make_key(acme)
    replay.check(request.node, committed=False)
    assert looked == []
    Instance.objects.update(audit_hash=b"\0" * 32)
    with pytest.raises(AssertionError):
        replay.check(request.node, committed=False)
