"""Alerts: a check that turns red is told once, signed, and so is its recovery."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from memoryhub.models.alerts import Alert, AlertNotice
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.models.webhooks import Webhook
from memoryhub.services.access import alerts as services
from memoryhub.services.access import webhooks
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import sweeping
from memoryhub.workers.overview import alerts, unhealthy
from memoryhub.workers.webhooks import WebhookSender
from tests.cast.factories import make_thread
from tests.cast.receiver import WebhookReceiver, receiving

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "keys"]),
    # Counters are set by hand.
    pytest.mark.no_replay,
]


@pytest.fixture
def receiver(settings: Any) -> Iterator[WebhookReceiver]:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    with receiving() as running:
        yield running


@pytest.fixture
def thread(agent: Agent) -> Thread:
    return make_thread(agent, "ann-and-bob")


def make_webhook(project: Project, url: str) -> str:
    row, secret = webhooks.create(project, url=url, types=["task.set"], actor="command")
    services.set_receivers(
        project, tone="bad", mail="", webhooks=[row.id], actor="command"
    )
    return secret


def look(thread: Thread, refaults: int, *, minutes: float) -> datetime:
    """Look at the thread with so many refaults, and send what is due."""
    now = clock.now() + timedelta(minutes=minutes)
    Thread.objects.filter(id=thread.id).update(refault_count=refaults)
    unhealthy.look(now)
    alerts.look(now)
    WebhookSender(clock=lambda: now).run_round()
    return now


def list_kinds(receiver: WebhookReceiver, check: str = "thrashing") -> list[str]:
    return [
        each["type"] for each in receiver.messages if each["data"]["check"] == check
    ]


def test_alert_is_told_once_and_again_when_well_for_minutes(
    acme: Project, thread: Thread, receiver: WebhookReceiver
) -> None:
    secret = make_webhook(acme, receiver.url)
    look(thread, 2, minutes=0)
    assert not list_kinds(receiver)
    for minutes, refaults in enumerate((3, 3, 0, 3, 0, 0)):
        look(thread, refaults, minutes=minutes)
    # The list flaps; the alert does not.
    assert list_kinds(receiver) == ["alert.raised"]
    assert receiver.is_signed(secret)
    data = receiver.messages[-1]["data"]
    assert data["reason"].startswith("1 thread, limit 2. Pages come back")
    assert (data["tone"], data["well_since"]) == ("red", None)
    assert data["url"].endswith("/p/acme/health#thrashing")
    assert b"ann-and-bob" not in b"".join(receiver.bodies)
    look(thread, 0, minutes=9)
    assert list_kinds(receiver) == ["alert.raised", "alert.ended"]
    look(thread, 3, minutes=10)
    assert len(list_kinds(receiver)) == 3


def test_alert_waits_while_its_check_is_silent(
    acme: Project, thread: Thread, receiver: WebhookReceiver
) -> None:
    make_webhook(acme, receiver.url)
    until = clock.now() + timedelta(hours=1)
    services.set_silence(acme, "thrashing", until=until, actor="command")
    look(thread, 3, minutes=0)
    assert not list_kinds(receiver)
    look(thread, 3, minutes=61)
    assert list_kinds(receiver) == ["alert.raised"]


def test_alert_follows_the_threshold_of_its_project(
    acme: Project, thread: Thread
) -> None:
    services.set_thresholds(acme, {"most_refaults": 5}, actor="command")
    look(thread, 5, minutes=0)
    assert not Alert.objects.filter(check_key="thrashing").exists()
    look(thread, 6, minutes=1)
    assert "limit 5" in Alert.objects.get(check_key="thrashing").reason


def test_refused_notice_is_sent_again_and_swept_with_its_webhook(
    acme: Project, thread: Thread, receiver: WebhookReceiver
) -> None:
    make_webhook(acme, receiver.url)
    receiver.reply = lambda _: 500
    look(thread, 3, minutes=0)
    assert Webhook.objects.get().failures == 1
    # Another check may be red on a busy machine, and be told first.
    assert AlertNotice.objects.get(failures=1).sent_at is None
    receiver.reply = lambda _: 204
    look(thread, 3, minutes=1)
    ids = [each["webhook-id"] for each in receiver.headers]
    assert ids[0] == ids[1]
    receiver.reply = lambda _: 500
    look(thread, 0, minutes=2)
    now = look(thread, 0, minutes=9)
    webhooks.delete(Webhook.objects.get(), actor="command")
    sweeping.delete_alerts(now)
    assert not AlertNotice.objects.filter(due_at__isnull=False).exists()
    sweeping.delete_alerts(now + timedelta(days=31))
    assert not Alert.objects.filter(check_key="thrashing").exists()
