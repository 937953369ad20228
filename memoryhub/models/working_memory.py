from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField
from memoryhub.models.threads import Thread


class Key(models.Model):
    """A key of a thread's working memory: where its value lies, and until when.

    A row may outlive its instant by a minute; nothing answers from one without
    comparing it with now.
    """

    pk = models.CompositePrimaryKey("thread_id", "key")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="keys", db_index=False
    )
    key = NameField()
    #: The thread's, so that one project's keys are looked for among no others.
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    #: The thread's clock at the event that last set or retimed it.
    version = models.BigIntegerField()
    #: The event whose payload holds the value; in a fork it may be an ancestor's.
    value_thread = models.UUIDField()
    value_seq = models.BigIntegerField()
    #: Of the value, canonical UTF-8, padded.
    bytes = models.IntegerField()
    expires_at = models.DateTimeField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="state/keys.jsonl",
        forget=Fate.DELETED,
        references=(Reference("value_thread", "value_seq"),),
        holds=fields(
            id="thread project value_thread",
            name="key",
            number="version value_seq bytes",
            time="expires_at",
        ),
    )

    class Meta:
        indexes = [
            # What the sweep is for.
            models.Index(
                fields=["expires_at", "thread", "key"],
                name="key_expiry",
                condition=models.Q(expires_at__isnull=False),
            ),
            # What of a project expires soon.
            models.Index(
                fields=["project", "expires_at"],
                name="key_project_expiry",
                condition=models.Q(expires_at__isnull=False),
            ),
            # The largest of a project.
            models.Index(fields=["project", "-bytes"], name="key_bytes"),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.key}"


class Checkpoint(models.Model):
    """A point that a thread's working memory can return to, its ancestors' included.

    What it holds is folded from the journal: nothing of it is stored twice.
    """

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="checkpoints", db_index=False
    )
    #: As the thread numbers its event; of an ancestor's 0 or less.
    seq = models.BigIntegerField()
    name = NameField(null=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=64)
    #: Taken by a restore, so that it can be undone.
    auto = models.BooleanField()
    #: The one that its state descended from, numbered so too.
    parent = models.BigIntegerField(null=True)
    #: JSON: how much it holds by noun, such as `{"keys": 2, "has_task": true}`.
    counts = models.TextField()
    #: Names touched since the parent; null: any.
    touched = models.IntegerField(null=True)
    #: Where its event stands, which may be an ancestor.
    event_thread = models.UUIDField()
    event_seq = models.BigIntegerField()

    privacy = Privacy(
        subject="thread__subject",
        exported="state/checkpoints.jsonl",
        forget=Fate.DELETED,
        holds=fields(
            id="thread event_thread",
            name="name",
            word="auto",
            number="seq parent touched event_seq",
            number_word="counts",
            time="at",
            id_word="by",
        ),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.name or self.seq}"


class DueValue(models.Model):
    """A value to be erased once its time in history is over."""

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="due_values", db_index=False
    )
    seq = models.BigIntegerField()
    #: The thread's: each project has a grace of its own.
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    #: The latest expiry it was ever given.
    due_at = models.DateTimeField()

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        references=(Reference("thread_id", "seq"),),
        holds=fields(id="thread project", number="seq", time="due_at"),
    )

    class Meta:
        indexes = [
            # A project's oldest, and what of it is to be erased.
            models.Index(
                fields=["project", "due_at", "thread", "seq"], name="due_value_at"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.seq}"
