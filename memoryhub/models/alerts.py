"""Alerts: checks that turned amber or red, their silences, and notices to receivers."""

from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7

#: Most characters of a check's name and of its reason.
MAX_CHECK, MAX_REASON = 40, 300


class Alert(models.Model):
    """A check that is not well, from the worker's first sight of it until it is well.

    Rows stay for 30 days after their end, as history.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    #: Key of the check or flag of the verdict, as in the anchors of the page of Health.
    check_key = models.CharField(max_length=MAX_CHECK)
    tone = models.CharField(max_length=4)
    #: Words of the check; nothing of a thread or a person.
    reason = models.CharField(max_length=MAX_REASON)
    #: Instant at which the check stopped to be well, and at which the worker saw it.
    since = models.DateTimeField()
    began_at = models.DateTimeField()
    #: Instant since which the check looks well; None while it does not.
    well_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="id project",
            word="check_key tone",
            staff="reason",
            time="since began_at well_at ended_at",
        ),
    )

    class Meta:
        constraints = [
            # A check has one open alert, whichever processes look at once.
            models.UniqueConstraint(
                name="open_alert",
                fields=["project", "check_key"],
                condition=models.Q(ended_at__isnull=True),
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-began_at"], name="alert_history"),
            models.Index(fields=["ended_at"], name="alert_age"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class AlertNotice(models.Model):
    """One message about an alert to one receiver, sent or waiting."""

    class Kind(models.TextChoices):
        RAISED = "alert.raised"
        ENDED = "alert.ended"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    alert = models.ForeignKey(Alert, models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    #: Tone at the time of the notice.
    tone = models.CharField(max_length=4)
    #: The webhook; None for mail. No reference: history outlives the webhook.
    webhook = models.UUIDField(null=True)
    #: Host of the receiver or address of the mail, for people.
    receiver = models.CharField(max_length=254)
    made_at = models.DateTimeField()
    #: Instant of the next attempt; None once the notice is sent or given up.
    due_at = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)

    privacy = Privacy(
        holds=parse_fields(
            id="id alert webhook",
            word="kind tone",
            staff="receiver",
            number="failures",
            time="made_at due_at sent_at",
        ),
    )

    class Meta:
        indexes = [
            models.Index(
                fields=["webhook", "due_at"],
                name="alert_notice_due",
                condition=models.Q(due_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class AlertSilence(models.Model):
    """A check of a project about which nobody is told until an instant."""

    pk = models.CompositePrimaryKey("project_id", "check_key")
    project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False
    )
    check_key = models.CharField(max_length=MAX_CHECK)
    until = models.DateTimeField()

    privacy = Privacy(holds=parse_fields(id="project", word="check_key", time="until"))

    def __str__(self) -> str:
        return f"{self.project_id}/{self.check_key}"
