"""Alerts in the inspector: thresholds, receivers and silences, set by owners."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryhub.models.alerts import AlertSilence
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.webhooks import Webhook
from memoryhub.services.access import webhooks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from memoryhub.workers import stats
from memoryhub.workers.overview import alerts, unhealthy
from tests.inspector.paged import make_restless

pytestmark = pytest.mark.django_db(databases=["default", "keys"])
PAGE = "/p/acme/alerts"


def test_owner_sets_a_threshold_and_goes_back(owner: Client, acme: Project) -> None:
    owner.post(PAGE, {"thresholds": "all", "most_refaults": "7"})
    acme.refresh_from_db()
    assert acme.most_refaults == 7
    assert "Limit 7 ·" in owner.get("/p/acme/health").content.decode()
    assert "Back to" in owner.get(PAGE).content.decode()
    owner.post(PAGE, {"thresholds": "most_refaults"})
    acme.refresh_from_db()
    assert acme.most_refaults is None


def test_rates_are_shares_as_on_other_pages(owner: Client, acme: Project) -> None:
    page = owner.get(PAGE).content.decode()
    assert 'value="0.50" placeholder="0.50"' in page
    owner.post(PAGE, {"thresholds": "all", "least_hit_percent": "0.29"})
    acme.refresh_from_db()
    assert acme.least_hit_percent == 29
    assert 'value="0.29" placeholder="0.60"' in owner.get(PAGE).content.decode()


def test_refused_threshold_keeps_what_was_sent(owner: Client, acme: Project) -> None:
    sent = {"thresholds": "all", "least_hit_percent": "1.01"}
    answer = owner.post(PAGE, sent)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "Enter a number from 0.00 to 1.00." in page
    assert 'value="1.01"' in page
    acme.refresh_from_db()
    assert acme.least_hit_percent is None


def test_owner_chooses_which_webhooks_are_told(owner: Client, acme: Project) -> None:
    row, _ = webhooks.create(
        acme, url="https://a.example.com/", types=["task.set"], actor="command"
    )
    owner.post(PAGE, {"tone": "attn", "webhooks": str(row.id)})
    assert Webhook.objects.get().types == "alert.ended alert.raised task.set"
    owner.post(PAGE, {"tone": "attn"})
    assert Webhook.objects.get().types == "task.set"
    # No mail server is set up.
    answer = owner.post(PAGE, {"tone": "bad", "mail": "ops@example.com"})
    assert answer.status_code == 422


def test_owner_silences_a_check_and_hears_of_it_again(owner: Client) -> None:
    alerts.look(clock.now())
    assert "No line vouches" in owner.get(PAGE).content.decode()
    owner.post(PAGE, {"check": "anchors", "for": "8"})
    assert AlertSilence.objects.get().until > clock.now()
    assert "Silent until" in owner.get(PAGE).content.decode()
    owner.post(PAGE, {"check": "anchors", "for": "tell"})
    assert not AlertSilence.objects.exists()
    past = {"check": "anchors", "for": "until", "until": "2020-01-01T00:00"}
    assert owner.post(PAGE, past).status_code == 422


def test_alert_names_the_threads_it_is_about(owner: Client, agent: Agent) -> None:
    row = make_restless(agent, exchanges=8)
    now = clock.now()
    stats.take(now)
    unhealthy.look(now)
    alerts.look(now)
    page = owner.get(PAGE).content.decode()
    assert 'href="/p/acme/threads/restless">restless</a>' in page
    assert 'href="/p/acme/threads?q=status%3Aopen%20flag%3Athrashing"' in page
    assert "Closed since" not in page
    operator_threads.close(row, actor="operator:x", reason="completed")
    unhealthy.look(clock.now())
    page = owner.get(PAGE).content.decode()
    _, *gone = page.split("Closed since the alert began:")
    gone = [each.partition("</p>")[0] for each in gone]
    link = 'href="/p/acme/threads/restless">restless</a>'
    assert [link in each for each in gone] == [True] + [False] * (len(gone) - 1)
    assert all("1 named above" in each for each in gone[1:])
    closed = 'href="/p/acme/threads?q=status%3Aclosed%20flag%3Athrashing"'
    assert sum(closed in each for each in gone) == 1
