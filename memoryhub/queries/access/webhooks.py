"""Webhooks of a project, and the events that wait for them. Never writes."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from memoryhub.errors import NotFoundError
from memoryhub.models.alerts import AlertNotice
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.models.webhooks import Webhook, WebhookQueue

#: The only event of an erased thread that a webhook still receives.
ERASED = "thread.erased"


def list_webhooks(project: Project) -> list[Any]:
    """List a project's webhooks, oldest first, each with `behind`. One query."""
    return list(_select_all().filter(project=project).order_by("created_at", "id"))


def get_webhook(project: Project, webhook: UUID) -> Any:
    """Return a webhook, with `behind`: whether events wait. Raises NotFoundError."""
    found = _select_all().filter(project=project, id=webhook).first()
    if found is None:
        raise NotFoundError
    return found


def list_due(now: datetime, *, limit: int) -> list[UUID]:
    """List webhooks with something to send now, longest untried first. One query."""
    ready = Q(retry_at=None) | Q(retry_at__lte=now)
    waiting = _select_queue().filter(due_at__lte=now)
    notices = AlertNotice.objects.filter(webhook=OuterRef("id"), due_at__lte=now)
    owed = Q(Exists(waiting)) | Q(Exists(notices))
    rows = Webhook.objects.filter(
        Q(test_at__isnull=False) | (Q(paused=False) & ready & owed),
        project__state=Project.State.ACTIVE,
    )
    rows = rows.order_by("tried_at", "id")
    return list(rows.values_list("id", flat=True)[:limit])


def find_next_queue(webhook: UUID, *, now: datetime) -> WebhookQueue | None:
    """Find the thread whose events wait longest, with the thread. One query."""
    rows = WebhookQueue.objects.filter(webhook=webhook, due_at__lte=now)
    return rows.select_related("thread").order_by("due_at").first()


def list_notices(
    webhook: UUID | None, *, now: datetime, limit: int
) -> list[AlertNotice]:
    """List notices that are due for a webhook, or by mail, oldest first. One query."""
    rows = AlertNotice.objects.filter(webhook=webhook, due_at__lte=now)
    return list(rows.select_related("alert__project").order_by("made_at", "id")[:limit])


def list_events(
    queue: WebhookQueue, types: frozenset[str], *, limit: int
) -> list[tuple[int, str, datetime]]:
    """List (seq, type, time) of a queue's next events of these types. One query."""
    if queue.thread.status == Thread.Status.ERASED:
        types &= {ERASED}
    rows = Event.objects.filter(
        thread_id=queue.thread_id,
        seq__gt=queue.sent_seq,
        seq__lte=queue.head_seq,
        type__in=types,
    )
    return list(rows.order_by("seq").values_list("seq", "type", "at")[:limit])


def _select_all() -> QuerySet[Webhook]:
    return Webhook.objects.annotate(behind=Exists(_select_queue()))


def _select_queue() -> QuerySet[WebhookQueue]:
    return WebhookQueue.objects.filter(webhook=OuterRef("id"))
