"""Check after each test: what it looks at, and that it notices damage."""

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
def test_write_is_noted_by_its_table(sql: str, table: str | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
    assert replay.written == ({table} if table else set())


@pytest.mark.no_replay
@pytest.mark.django_db
def test_replay_check_finds_damage_by_a_test(
    agent: Agent, request: pytest.FixtureRequest
) -> None:
    factories.append(agent, "t-1", "one")
    replay.check(request.node, committed=False)
    Thread.objects.update(slot_count=7)
    with pytest.raises(AssertionError):
        replay.check(request.node, committed=False)


@pytest.mark.no_replay
@pytest.mark.django_db
def test_replay_check_of_a_new_key_covers_only_the_audit_log(
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
