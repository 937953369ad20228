from __future__ import annotations

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


def test_the_use_is_noted_by_the_hour(acme: Project) -> None:
    _, key = factories.make_key(acme)
    now = timezone.now()
    agents.find(key, now=now)
    hour = now.replace(minute=0, second=0, microsecond=0)
    assert ApiKey.objects.get(project=acme).last_used_at == hour
