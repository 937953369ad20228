from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import ApiKey, Project
from memoryhub.services.access import agents, api_keys
from tests.cast import factories

pytestmark = pytest.mark.django_db


def test_key_finds_its_agent(acme: Project) -> None:
    agent, key = factories.make_key(acme)
    found = agents.find(key, now=timezone.now())
    assert found is not None
    assert found.agent == agent


def test_key_lookup_costs_one_query(acme: Project, django_assert_num_queries) -> None:
    _, key = factories.make_key(acme)
    agents.find(key, now=timezone.now())
    with django_assert_num_queries(1):
        agents.find(key, now=timezone.now())


def test_key_with_a_typo_costs_no_query(
    acme: Project, django_assert_num_queries
) -> None:
    _, key = factories.make_key(acme)
    with django_assert_num_queries(0):
        assert agents.find(key[:-1] + "~", now=timezone.now()) is None


def test_revoked_key_finds_no_agent(acme: Project) -> None:
    _, key = factories.make_key(acme)
    api_keys.revoke(ApiKey.objects.get(project=acme))
    assert agents.find(key, now=timezone.now()) is None


def test_key_use_is_recorded_by_the_minute(acme: Project) -> None:
    _, key = factories.make_key(acme)
    now = timezone.now() + timedelta(hours=2)
    for at in (now, now + timedelta(minutes=1)):
        agents.find(key, now=at)
        minute = at.replace(second=0, microsecond=0)
        assert ApiKey.objects.get(project=acme).last_used_at == minute


def test_key_last_use_is_never_before_its_creation(acme: Project) -> None:
    """Cover fault 6: the minute of the first use began before the key was made."""
    _, key = factories.make_key(acme)
    agents.find(key, now=timezone.now())
    row = ApiKey.objects.get(project=acme)
    assert row.last_used_at is not None
    assert row.last_used_at >= row.created_at
