"""Sweeping: deletes rows that nobody can use any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.sessions.models import Session
from django.db.models import Model, Q, QuerySet

from memoryhub import journal
from memoryhub.journal import importing
from memoryhub.journal.log.requests import KEPT_FOR
from memoryhub.models.access.operators import SignInFailure, SignInLink
from memoryhub.models.activity import ProjectHour, RefusalCount
from memoryhub.models.alerts import Alert, AlertNotice, AlertSilence
from memoryhub.models.events import RequestKey
from memoryhub.models.projects import Project
from memoryhub.models.webhooks import Webhook, WebhookQueue
from memoryhub.vault.keys import keys

#: A subject is made seconds after its key; an older key without one lost its maker.
ORPHANED_AFTER = timedelta(hours=1)
FAILURES_KEPT = timedelta(days=30)
#: Time for which an alert is kept after its end.
ALERTS_KEPT = timedelta(days=30)
#: Time for which counts of projects are kept, by the length of their interval in
#: minutes.
COUNTS_KEPT = {
    1: timedelta(hours=2),
    15: timedelta(days=2),
    60: timedelta(days=30),
}
#: Rows in one transaction, so that the writer is soon free again.
BATCH = 1_000


def delete_request_keys(now: datetime) -> int:
    """Delete Idempotency-Keys that are no longer honoured."""
    return _delete_rows(RequestKey.objects.filter(created_at__lt=now - KEPT_FOR))


def delete_orphan_keys(now: datetime) -> int:
    """Delete data keys whose maker died before their subject was stored."""
    return keys.sweep_orphans(older_than=now - ORPHANED_AFTER)


def delete_imports(now: datetime) -> int:
    """Delete threads left behind by imports that were killed."""
    removed = 0
    for project in Project.objects.values_list("id", flat=True):
        found = dict(importing.iter_unopened(project))
        # A running import has written to one of its threads lately.
        newest = dict[UUID, datetime]()
        for subject, written_at in found.values():
            newest[subject] = max(written_at, newest.get(subject, written_at))
        dead = {each for each, at in newest.items() if at < now - ORPHANED_AFTER}
        removed += importing.remove(
            thread for thread, (subject, _) in found.items() if subject in dead
        )
    return removed


def delete_sign_ins(now: datetime) -> int:
    """Delete ended sessions, used or expired links, and old failures."""
    done = Q(used_at__isnull=False) | Q(expires_at__lte=now)
    return (
        _delete_rows(Session.objects.filter(expire_date__lte=now))
        + _delete_rows(SignInLink.objects.filter(done))
        + _delete_rows(SignInFailure.objects.filter(at__lt=now - FAILURES_KEPT))
    )


def delete_activity(now: datetime) -> int:
    """Delete counts of activity that no chart shows any more."""
    removed = 0
    for minutes, kept in COUNTS_KEPT.items():
        hours = ProjectHour.objects.filter(minutes=minutes, at__lt=now - kept)
        removed += journal.run(hours.delete)[0]
        removed += _delete_rows(
            RefusalCount.objects.filter(minutes=minutes, at__lt=now - kept)
        )
    return removed


def delete_webhook_queues(_: datetime) -> int:
    """Delete a batch of what waits for deleted webhooks; return how many rows."""
    stored = Webhook.objects.values("id")
    orphans = WebhookQueue.objects.exclude(webhook__in=stored)
    batch = list(orphans.values_list("thread", flat=True)[:BATCH])
    doomed = orphans.filter(thread__in=batch)
    journal.run(doomed.delete)
    return len(batch)


def delete_alerts(now: datetime) -> int:
    """Delete alerts that ended long ago, with their notices, and past silences."""
    # A notice of a deleted webhook would wait for ever.
    stored = Webhook.objects.values("id")
    waiting = AlertNotice.objects.filter(due_at__isnull=False, webhook__isnull=False)
    lost = waiting.exclude(webhook__in=stored)
    return (
        _delete_rows(lost)
        + _delete_rows(Alert.objects.filter(ended_at__lt=now - ALERTS_KEPT))
        + _delete_rows(AlertSilence.objects.filter(until__lte=now))
    )


def _delete_rows(rows: QuerySet[Model]) -> int:
    removed = 0
    while batch := list(rows.values_list("pk", flat=True)[:BATCH]):
        doomed = rows.model._default_manager.filter(pk__in=batch)
        journal.run(doomed.delete)
        removed += len(batch)
    return removed
