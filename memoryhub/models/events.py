from __future__ import annotations

from collections.abc import Iterable
from typing import Self
from uuid import UUID

from django.db import models

from memoryhub.models.erasures import Erasure
from memoryhub.models.privacy import Fate, Privacy, Reference, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField, uuid7
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread


class ChangesKeysOrTask(models.Func):
    """Condition on events that change, or may change, a key or the task.

    The statement holds the types themselves: SQLite uses a partial index only for a
    condition without parameters. Another type needs an index of another name.
    """

    types = (
        *("key.set", "key.retimed", "key.deleted", "keys.expired", "keys.cleared"),
        *("task.set", "task.updated", "task.cleared", "checkpoint.restored"),
    )
    template = "(%(expressions)s IN ({}))".format(", ".join(map("'{}'".format, types)))
    output_field = models.BooleanField()


class EventQuerySet(models.QuerySet["Event"]):
    def filter_places(self, places: Iterable[tuple[UUID, int]]) -> Self:
        """Filter the events at places (thread, seq), in no order."""
        seqs: dict[UUID, list[int]] = {}
        for thread, seq in places:
            seqs.setdefault(thread, []).append(seq)
        named = models.Q()
        for thread, in_thread in seqs.items():
            named |= models.Q(thread_id=thread, seq__in=in_thread)
        return self.filter(named) if seqs else self.none()


class Event(models.Model):
    """One line of a thread's journal. Triggers forbid changes except by erasure."""

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="events", db_index=False
    )
    seq = models.BigIntegerField()
    type = models.CharField(max_length=40)
    at = models.DateTimeField()
    actor = models.CharField(max_length=64)
    #: Canonical JSON of the event body. Text, so that both engines keep the bytes.
    #: See decision 2.
    body = models.TextField()
    payload = models.BinaryField(null=True)
    #: SHA-256 of the sealed payload; stays after the payload's erasure.
    payload_digest = models.BinaryField(max_length=32, null=True)
    erased_by = models.BigIntegerField(null=True)
    chain = models.BinaryField(max_length=32)
    #: Id of the page that the event is about, as in the body.
    page = NameField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.NULLED,
        remaining=models.Q(payload__isnull=False),
        references=(Reference("thread_id", "seq"),),
        holds=parse_fields(
            id="thread",
            number="seq erased_by",
            word="type",
            time="at",
            id_word="actor",
            # Page id that the agent chose, as in the body.
            name="page",
            digest_name_id_number_word_time="body",
            sealed="payload",
            digest="payload_digest chain",
        ),
    )

    objects = EventQuerySet.as_manager()

    class Meta:
        indexes = [
            # History of a page, and its state as of a seq.
            models.Index(
                fields=["thread", "page", "seq"],
                name="event_page",
                condition=models.Q(page__isnull=False),
            ),
            # Erased events that a process may still cache and must not serve.
            models.Index(
                fields=["thread", "seq"],
                name="event_erased",
                condition=models.Q(erased_by__isnull=False),
            ),
            # History of a key and of the task: few events among many messages.
            models.Index(
                fields=["thread", "seq"],
                name="event_keys_or_task",
                condition=models.Q(ChangesKeysOrTask("type")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.seq}"


class Snapshot(models.Model):
    """A thread's folded state at a seq, sealed, with unencrypted counters."""

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="snapshots", db_index=False
    )
    seq = models.BigIntegerField()
    replay_format = models.IntegerField()
    sealed = models.BinaryField()
    #: JSON: cumulative counts by name; charts show differences of counts.
    counters = models.TextField()

    privacy = Privacy(
        subject="thread__subject",
        forget=Fate.DELETED,
        passing=True,
        holds=parse_fields(
            id="thread",
            number="seq replay_format",
            sealed="sealed",
            number_word="counters",
        ),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.seq}"


class ThreadTerms(models.Model):
    """Search terms of a run of a thread's records, sealed."""

    pk = models.CompositePrimaryKey("thread_id", "upto_seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="terms", db_index=False
    )
    first_seq = models.BigIntegerField()
    upto_seq = models.BigIntegerField()
    sealed = models.BinaryField()

    privacy = Privacy(
        subject="thread__subject",
        forget=Fate.DELETED,
        passing=True,
        holds=parse_fields(id="thread", number="first_seq upto_seq", sealed="sealed"),
    )

    class Meta:
        verbose_name_plural = "thread terms"

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.first_seq}-{self.upto_seq}"


class RequestKey(models.Model):
    """A served Idempotency-Key: digests of the request, and its result."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    #: Keyed digest of the client's key.
    digest = models.BinaryField(max_length=16)
    #: Keyed digest of route and body.
    request = models.BinaryField(max_length=16)
    #: Subject of the request; the row is deleted with the subject.
    subject = models.ForeignKey(Subject, models.CASCADE, related_name="request_keys")
    #: Thread of the request; None for a request about a subject without an event.
    thread = models.ForeignKey(
        Thread, models.CASCADE, null=True, related_name="request_keys"
    )
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    #: Erasure that the request planned, confirmed or cancelled.
    erasure = models.ForeignKey(
        Erasure, models.CASCADE, null=True, db_index=False, related_name="+"
    )
    created_at = models.DateTimeField()

    privacy = Privacy(
        # Requests about a subject have no thread.
        subject="subject",
        of_thread="thread",
        forget=Fate.DELETED,
        passing=True,
        references=(Reference("thread_id", "first_seq", until="last_seq"),),
        holds=parse_fields(
            id="id project subject thread erasure",
            digest="digest request",
            number="first_seq last_seq",
            time="created_at",
        ),
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="request_key_once", fields=["project", "digest"]
            ),
        ]
        indexes = [
            # Sweep of rows older than 24 hours.
            models.Index(fields=["created_at"], name="request_key_age"),
        ]

    def __str__(self) -> str:
        return str(self.id)
