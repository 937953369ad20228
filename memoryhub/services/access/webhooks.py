"""Webhooks: creation, pause, test and deletion, and what a delivery has led to."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from memoryhub import journal
from memoryhub.errors import InvalidError
from memoryhub.journal import audit
from memoryhub.journal.log import fence
from memoryhub.kernel.registry import TYPES
from memoryhub.models.alerts import AlertNotice
from memoryhub.models.keys import WebhookKey
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.webhooks import MAX_URL, Webhook, WebhookQueue
from memoryhub.services.access import addresses
from memoryhub.vault.keys import keyring
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap

SECRET_BYTES: Final = 32
#: Webhooks of one project.
MOST: Final = 10
#: Pauses after failed attempts: 5, 10, 20 … seconds, at most the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(hours=1)
DELIVERED: Final = "delivered"
#: Types that a webhook names to be told of alerts; no event has them.
ALERT_TYPES: Final = frozenset(AlertNotice.Kind.values)


def create(
    project: Project, *, url: str, types: Iterable[str], actor: str
) -> tuple[Webhook, str]:
    """Create a webhook. Returns its row and its secret, which is never shown again.

    Later events of these types are sent. Raises ProjectDeletedError, and InvalidError
    `url`, `types`, or `full` beyond 10 webhooks.
    """
    wanted = sorted({*types})
    require_url(url)
    if not wanted or not TYPES.keys() | ALERT_TYPES >= {*wanted}:
        raise InvalidError(loc="types")
    row = Webhook(
        project=project, url=url, types=" ".join(wanted), created_at=clock.now()
    )
    secret, kek = os.urandom(SECRET_BYTES), keyring.get_ring().current

    def insert() -> None:
        with transaction.atomic():
            fence.require_active(project.id)
            Project.objects.filter(id=project.id).update(has_webhooks=True)
            if Webhook.objects.filter(project=project).count() >= MOST:
                raise InvalidError(code="full", loc="url", most=MOST)
            row.save(force_insert=True)
            # Before the commit: no webhook without a secret is ever seen.
            WebhookKey.objects.using("keys").create(
                webhook=row.id,
                kek_id=kek.id,
                wrapped=wrap(kek, secret, purpose=KeyPurpose.WEBHOOK, owner=row.id),
            )
            _audit_webhook("webhook.made", row, actor=actor)

    journal.run(insert)
    return row, f"whsec_{base64.b64encode(secret).decode()}"


def require_url(url: str) -> None:
    """Raise InvalidError unless events may be sent to the URL, as far as it says."""
    if len(url) > MAX_URL or not addresses.is_permitted(
        url, hosts=settings.WEBHOOK_HOSTS
    ):
        raise InvalidError(loc="url")


def set_paused(row: Webhook, *, paused: bool, actor: str) -> None:
    """Pause a webhook, or send what has waited; either begins without failures."""
    action = "webhook.paused" if paused else "webhook.resumed"
    _change(row, action, actor=actor, paused=paused, failures=0, retry_at=None)


def request_test(row: Webhook, *, actor: str) -> None:
    """Have the worker send a test event, even to a paused webhook."""
    _change(row, "webhook.tested", actor=actor, test_at=clock.now())


def delete(row: Webhook, *, actor: str) -> None:
    """Delete a webhook and its secret; what waits is never sent."""

    def remove() -> None:
        with transaction.atomic():
            delete_rows([row.id])
            others = Webhook.objects.filter(project=row.project_id)
            Project.objects.filter(id=row.project_id).update(
                has_webhooks=others.exists()
            )
            _audit_webhook("webhook.deleted", row, actor=actor)

    journal.run(remove)


def delete_rows(webhooks: Iterable[UUID]) -> None:
    """Delete webhooks and their secrets; call in a transaction.

    The worker deletes the queues.
    """
    ids = [*webhooks]
    Webhook.objects.filter(id__in=ids).delete()
    WebhookKey.objects.using("keys").filter(webhook__in=ids).delete()


def open_secret(row: Webhook) -> bytes:
    """Open the webhook's secret. Raises KeyMissingError, WebhookKey.DoesNotExist."""
    key = WebhookKey.objects.using("keys").get(webhook=row.id)
    kek = keyring.get_kek(key.kek_id)
    return unwrap(kek, bytes(key.wrapped), purpose=KeyPurpose.WEBHOOK, owner=row.id)


def compute_pause(failures: int) -> timedelta:
    """Return the pause after this many failed attempts: up to an hour."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(failures - 1, 20)
    return min(doubled, LONGEST_PAUSE)


def record_result(
    row: Webhook,
    outcome: str,
    *,
    status: int | None,
    queue: WebhookQueue | None = None,
    sent_seq: int = 0,
    notice: AlertNotice | None = None,
) -> None:
    """Record the last attempt, and what it delivered: a queue's events, or a notice.

    A failure pauses the webhook, and the queue's thread for as long as the thread has
    failed: one refused event does not hold up other threads.
    """
    work = partial(
        _record_locked, row, outcome, status, queue, sent_seq=sent_seq, notice=notice
    )
    journal.run(work)


def skip(queue: WebhookQueue, sent_seq: int) -> None:
    """Move a queue past events that are not sent, such as those of an erased thread."""
    now = clock.now()
    journal.run(partial(_move_queue, queue, sent_seq, good=True, now=now))


def _record_locked(
    row: Webhook,
    outcome: str,
    status: int | None,
    queue: WebhookQueue | None,
    *,
    sent_seq: int,
    notice: AlertNotice | None,
) -> None:
    now, good = clock.now(), outcome == DELIVERED
    moved = good or (queue is not None and sent_seq > queue.sent_seq)
    failures = 0 if good else 1 if moved else row.failures + 1
    fields = {
        "tried_at": now,
        "outcome": outcome,
        "status": status,
        "failures": failures,
        "retry_at": None if good else now + compute_pause(failures),
        **({"delivered_at": now} if moved else {}),
        **({} if queue or notice else {"test_at": None}),
    }
    with transaction.atomic():
        Webhook.objects.filter(id=row.id).update(**fields)
        if queue:
            _move_queue(queue, sent_seq, good=good, now=now)
        if notice:
            move_notice(notice, good=good, now=now)
    for name, value in fields.items():
        setattr(row, name, value)


def move_notice(notice: AlertNotice, *, good: bool, now: datetime) -> None:
    """Record an attempt at a notice: sent, or due again after a pause."""
    notice.failures = 0 if good else notice.failures + 1
    notice.sent_at = now if good else None
    notice.due_at = None if good else now + compute_pause(notice.failures)
    notice.save(update_fields=["failures", "sent_at", "due_at"])


def _move_queue(
    queue: WebhookQueue, sent_seq: int, *, good: bool, now: datetime
) -> None:
    rows = WebhookQueue.objects.filter(webhook=queue.webhook, thread=queue.thread_id)
    failures = 0 if good else 1 if sent_seq > queue.sent_seq else queue.failures + 1
    # Another process may have taken over: it alone moves the queue then.
    rows.filter(sent_seq=queue.sent_seq).update(
        sent_seq=sent_seq,
        failures=failures,
        due_at=now if good else now + compute_pause(failures),
    )
    # One statement: an event that is written meanwhile keeps the row.
    rows.filter(sent_seq__gte=F("head_seq")).delete()


def _change(row: Webhook, action: str, *, actor: str, **fields: object) -> None:
    """Update columns of a webhook and append the audit entry in one transaction."""

    def change() -> None:
        with transaction.atomic():
            Webhook.objects.filter(id=row.id).update(**fields)
            _audit_webhook(action, row, actor=actor)

    journal.run(change)


def _audit_webhook(action: str, row: Webhook, *, actor: str) -> None:
    """Append an audit entry about a webhook; call inside a transaction."""
    audit.append(
        actor=actor,
        action=action,
        project=row.project_id,
        target_kind="webhook",
        target_id=str(row.id),
    )
