"""Webhooks: addresses that are sent the ids of a project's events, and what waits."""

from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread

MAX_URL = 500


class Webhook(models.Model):
    """An address that is sent events of a project. The keys database has the secret."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="webhooks")
    url = models.CharField(max_length=MAX_URL)
    #: Event types, separated by spaces, sorted.
    types = models.TextField()
    #: A paused webhook is sent nothing; its events wait.
    paused = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    #: Instant at which an owner asked for a test that was not sent yet.
    test_at = models.DateTimeField(null=True)
    #: Last attempt: instant, word of the outcome, and status of the reply, if any.
    tried_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=11, default="")
    status = models.IntegerField(null=True)
    delivered_at = models.DateTimeField(null=True)
    #: Failed attempts since the last delivery, and the instant of the next attempt.
    failures = models.IntegerField(default=0)
    retry_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="id project",
            staff="url",
            word="types paused outcome",
            number="status failures",
            time="created_at test_at tried_at delivered_at retry_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)


class WebhookQueue(models.Model):
    """Events of one thread that wait for one webhook: those after `sent_seq`.

    The transaction of an event writes the row, and the last delivery deletes it.
    """

    pk = models.CompositePrimaryKey("thread_id", "webhook")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="webhook_queues", db_index=False
    )
    #: No reference: deleting a webhook must not refuse an event of that moment.
    webhook = models.UUIDField()
    sent_seq = models.BigIntegerField()
    head_seq = models.BigIntegerField()
    due_at = models.DateTimeField()
    #: Failed attempts at the event after `sent_seq`.
    failures = models.IntegerField()

    privacy = Privacy(
        # An erased thread's row stays, since the receiver must learn of the erasure.
        subject="thread__subject",
        forget=Fate.STAYS,
        passing=True,
        holds=parse_fields(
            id="thread webhook", number="sent_seq head_seq failures", time="due_at"
        ),
    )

    class Meta:
        indexes = [
            # Next thread of a webhook.
            models.Index(fields=["webhook", "due_at"], name="webhook_due"),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.webhook}"
