"""Mails about alerts: what they say, and a mail server that is away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail

from memoryhub.models.alerts import Alert, AlertNotice
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.services.access import alert_mails
from tests.harness.instances import free_port

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def notice(acme: Project) -> AlertNotice:
    now = clock.now()
    alert = Alert.objects.create(
        project=acme,
        check_key="thrashing",
        tone="bad",
        reason="1 thread, limit 2.",
        since=now,
        began_at=now,
    )
    return AlertNotice.objects.create(
        alert=alert,
        kind=AlertNotice.Kind.RAISED,
        tone="bad",
        receiver="ops@example.com",
        made_at=now,
        due_at=now,
    )


def test_mail_says_what_is_red_and_where_to_look(notice: AlertNotice) -> None:
    assert alert_mails.send_due([notice], now=clock.now()) == 1
    (sent,) = mail.outbox
    assert sent.to == ["ops@example.com"]
    assert sent.subject == "acme: Threads: thrashing is red"
    assert "1 thread, limit 2." in sent.body
    assert str(sent.body).endswith("/p/acme/health#thrashing")
    notice.refresh_from_db()
    assert notice.sent_at is not None


def test_mail_is_tried_again_when_its_server_is_away(
    notice: AlertNotice, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    now = clock.now()
    assert alert_mails.send_due([notice], now=now) == 0
    notice.refresh_from_db()
    assert (notice.failures, notice.sent_at) == (1, None)
    assert notice.due_at
    assert notice.due_at - now >= timedelta(seconds=1)
