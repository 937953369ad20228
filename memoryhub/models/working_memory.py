from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField
from memoryhub.models.threads import Thread


class Key(models.Model):
    """A key of a thread's working memory: place of its value, and expiry.

    A row may outlive its expiry by a minute, so readers compare the expiry with now.
    """

    pk = models.CompositePrimaryKey("thread_id", "key")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="keys", db_index=False
    )
    key = NameField()
    #: The thread's project, so that a search reads only one project's keys.
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    #: Clock of the thread at the event that last set or retimed the key.
    version = models.BigIntegerField()
    #: The event whose payload holds the value; in a fork it may be an ancestor's.
    value_thread = models.UUIDField()
    value_seq = models.BigIntegerField()
    #: Bytes of the value, canonical UTF-8, padded.
    bytes = models.IntegerField()
    expires_at = models.DateTimeField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="state/keys.jsonl",
        forget=Fate.DELETED,
        references=(Reference("value_thread", "value_seq"),),
        holds=parse_fields(
            id="thread project value_thread",
            name="key",
            number="version value_seq bytes",
            time="expires_at",
        ),
    )

    class Meta:
        indexes = [
            # Keys due for the sweep.
            models.Index(
                fields=["expires_at", "thread", "key"],
                name="key_expiry",
                condition=models.Q(expires_at__isnull=False),
            ),
            # Keys of a project that expire soon.
            models.Index(
                fields=["project", "expires_at"],
                name="key_project_expiry",
                condition=models.Q(expires_at__isnull=False),
            ),
            # Largest keys of a project.
            models.Index(fields=["project", "-bytes"], name="key_bytes"),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.key}"


class Checkpoint(models.Model):
    """A checkpoint of a thread's working memory, inherited checkpoints included.

    The contents are folded from the journal and not stored again.
    """

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="checkpoints", db_index=False
    )
    #: Number of the event in this thread; 0 or less for an ancestor's event.
    seq = models.BigIntegerField()
    name = NameField(null=True)
    at = models.DateTimeField()
    by = models.CharField(max_length=64)
    #: Taken by a restore, so that the restore can be undone.
    auto = models.BooleanField()
    #: Number of the checkpoint that the state descended from.
    parent = models.BigIntegerField(null=True)
    #: JSON: sizes of the contents by noun, such as `{"keys": 2, "has_task": true}`.
    counts = models.TextField()
    #: Names touched since the parent; null: any.
    touched = models.IntegerField(null=True)
    #: Thread of the event, which may be an ancestor.
    event_thread = models.UUIDField()
    event_seq = models.BigIntegerField()

    privacy = Privacy(
        subject="thread__subject",
        exported="state/checkpoints.jsonl",
        forget=Fate.DELETED,
        holds=parse_fields(
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
    """A value to erase once its retention in history ends."""

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="due_values", db_index=False
    )
    seq = models.BigIntegerField()
    #: The thread's project, which sets the grace.
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    #: Latest expiry that the value ever had.
    due_at = models.DateTimeField()

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        references=(Reference("thread_id", "seq"),),
        holds=parse_fields(id="thread project", number="seq", time="due_at"),
    )

    class Meta:
        indexes = [
            # Oldest due values of a project.
            models.Index(
                fields=["project", "due_at", "thread", "seq"], name="due_value_at"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.seq}"
