from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import ApiKey, Project
from memoryhub.services.access import agents, api_keys
from tests.cast import factories

pytestmark = pytest.mark.django_db


def test_a_key_finds_its_agent(acme: Project) -> None:
    agent, key = factories.make_key(acme)
    found = agents.find(key, now=timezone.now())
    assert found is not None
    assert found.agent == agent


def test_a_look_up_costs_one_query(acme: Project, django_assert_num_queries) -> None:
    _, key = factories.make_key(acme)
    agents.find(key, now=timezone.now())
    with django_assert_num_queries(1):
        agents.find(key, now=timezone.now())


def test_a_typo_costs_none(acme: Project, django_assert_num_queries) -> None:
    _, key = factories.make_key(acme)
    with django_assert_num_queries(0):
        assert agents.find(key[:-1] + "~", now=timezone.now()) is None


def test_a_dead_key_finds_nobody(acme: Project) -> None:
    _, key = factories.make_key(acme)
    api_keys.revoke(ApiKey.objects.get(project=acme))
    assert agents.find(key, now=timezone.now()) is None


def test_the_use_is_noted_by_the_minute(acme: Project) -> None:
    _, key = factories.make_key(acme)
    now = timezone.now() + timedelta(hours=2)
    for at in (now, now + timedelta(minutes=1)):
        agents.find(key, now=at)
        minute = at.replace(second=0, microsecond=0)
        assert ApiKey.objects.get(project=acme).last_used_at == minute


def test_a_key_is_never_used_before_it_was_made(acme: Project) -> None:
    """Fault 6: the minute of its first use began before it."""
    _, key = factories.make_key(acme)
    agents.find(key, now=timezone.now())
    row = ApiKey.objects.get(project=acme)
    assert row.last_used_at is not None
    assert row.last_used_at >= row.created_at
