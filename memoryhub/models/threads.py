from __future__ import annotations

import os
from typing import ClassVar, Self

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField, uuid7
from memoryhub.models.subjects import Subject

#: In lists by rate the threads without an exchange stand behind the best.
UNRATED = 1_001


def name_salt() -> bytes:
    return os.urandom(16)


class ThreadQuerySet(models.QuerySet["Thread"]):
    def scoped(self, project: Project) -> Self:
        """Return the project's threads that can be seen; where every look-up starts."""
        return self.filter(project=project).exclude(status=Thread.Status.IMPORTING)


class Thread(models.Model):
    """An address space, named by the agent. Its counters repeat the fold."""

    class Status(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"
        RETIRED = "retired"
        IMPORTING = "importing"
        ERASED = "erased"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="threads", db_index=False
    )
    subject = models.ForeignKey(
        Subject, models.PROTECT, related_name="threads", db_index=False
    )
    name = NameField()
    name_salt = models.BinaryField(max_length=16, default=name_salt)
    #: What is known of the subject beyond one thread is kept there.
    home = models.BooleanField(default=False)
    status = models.CharField(
        max_length=10, choices=Status.choices, default=Status.OPEN
    )
    agent_type = NameField(null=True)
    agent_instance = NameField(null=True)
    session = NameField(null=True)
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="forks")
    fork_seq = models.BigIntegerField(null=True)
    #: JSON: [[ancestor id, first index, end index, up-to seq], …]
    lineage = models.TextField(default="[]")
    #: JSON: {name: value}, sorted.
    labels = models.TextField(default="{}")
    config = models.TextField(default="{}")
    head_seq = models.BigIntegerField(default=0)
    head_hash = models.BinaryField(max_length=32, default=bytes)
    slot_count = models.BigIntegerField(default=0)
    nearly_full = models.BooleanField(default=False)
    turn_count = models.BigIntegerField(default=0)
    token_count = models.BigIntegerField(default=0)
    byte_count = models.BigIntegerField(default=0)
    #: Of the working set: tokens in it, and tokens it may hold.
    resident_tokens = models.IntegerField(default=0)
    capacity_tokens = models.IntegerField(default=0)
    tlb_hits = models.BigIntegerField(default=0)
    tlb_misses = models.BigIntegerField(default=0)
    fault_count = models.BigIntegerField(default=0)
    eviction_count = models.BigIntegerField(default=0)
    #: In the last turns; their number ÷ turns is the thrash index.
    refault_count = models.IntegerField(default=0)
    #: Of the model's exchanges: all, those in which a page was fetched, and how many of
    #: the last 20 these are.
    exchange_count = models.BigIntegerField(default=0)
    faulted_exchange_count = models.BigIntegerField(default=0)
    faulted_lately_count = models.IntegerField(default=0)
    #: Its working set is full enough to lose pages soon, and no worker has looked yet
    #: for levels to make of them.
    levels_due = models.BooleanField(default=False)
    #: An observer is to look at it. None in rows from before there were any.
    observer_due = models.BooleanField(null=True)
    created_at = models.DateTimeField()
    last_event_at = models.DateTimeField()
    last_event_type = models.CharField(max_length=40, default="")
    last_active_at = models.DateTimeField(null=True)
    #: Copies of the last event's time and of counts, at most every 10 s: lists sort by
    #: them, so that a busy thread does not churn their indexes.
    listed_at = models.DateTimeField()
    listed_slots = models.BigIntegerField(default=0)
    listed_turns = models.BigIntegerField(default=0)
    listed_tokens = models.BigIntegerField(default=0)
    listed_resident = models.IntegerField(default=0)
    listed_faults = models.BigIntegerField(default=0)
    #: Of the last exchanges so many in a thousand found all they needed; more than all
    #: before the first exchange, so that the worst come first.
    listed_rate = models.IntegerField(default=UNRATED)
    #: The head as a signed line outside the database last vouched for it.
    anchored_seq = models.BigIntegerField(default=0)
    #: Of an erased thread: up to where names in bodies are blanked.
    blanked_seq = models.BigIntegerField(default=0)
    anchored_hash = models.BinaryField(max_length=32, default=bytes)
    #: JSON of what was imported from a bundle: [instance, thread, head hash].
    origin = models.TextField(default="")

    privacy = Privacy(
        subject="subject",
        exported="state/threads.jsonl",
        forget=Fate.BLANKED,
        of_thread="id",
        remaining=~models.Q(name__startswith="~"),
        holds=fields(
            id="id project subject parent",
            name="name agent_type agent_instance session labels",
            # The salt is what makes the digests of names; it is no name itself.
            digest="name_salt head_hash anchored_hash",
            word="status home nearly_full last_event_type levels_due observer_due",
            number="fork_seq head_seq slot_count turn_count token_count byte_count"
            " listed_slots listed_turns listed_tokens listed_resident listed_faults"
            " listed_rate anchored_seq blanked_seq resident_tokens"
            " capacity_tokens tlb_hits tlb_misses"
            " fault_count eviction_count refault_count exchange_count"
            " faulted_exchange_count faulted_lately_count",
            id_number="lineage",
            id_digest="origin",
            number_word="config",
            time="created_at last_event_at last_active_at listed_at",
        ),
    )

    objects: ClassVar[models.Manager[Thread]] = ThreadQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="thread_name_once", fields=["project", "name"]
            ),
            # One that is on its way in may stand beside one that was erased.
            models.UniqueConstraint(
                name="one_home_thread",
                fields=["subject"],
                condition=models.Q(home=True)
                & ~models.Q(status__in=["erased", "importing"]),
            ),
        ]
        indexes = [
            # What is a subject's; and of that its home, which every turn asks for.
            models.Index(fields=["subject", "home"], name="thread_of_subject"),
            # The list of threads, and that list narrowed by one facet.
            models.Index(fields=["project", "-listed_at", "id"], name="thread_listed"),
            models.Index(
                fields=["project", "status", "-listed_at", "id"], name="thread_status"
            ),
            models.Index(
                fields=["project", "subject", "-listed_at", "id"], name="thread_subject"
            ),
            models.Index(
                fields=["project", "agent_type", "-listed_at", "id"],
                name="thread_agent_type",
            ),
            models.Index(
                fields=["project", "agent_instance", "-listed_at", "id"],
                name="thread_agent_instance",
            ),
            models.Index(
                fields=["project", "session", "-listed_at", "id"], name="thread_session"
            ),
            models.Index(
                fields=["project", "-listed_slots", "id"], name="thread_by_slots"
            ),
            # The list in the order of its other columns, either way.
            models.Index(
                fields=["project", "-listed_turns", "id"], name="thread_by_turns"
            ),
            models.Index(
                fields=["project", "-listed_tokens", "id"], name="thread_by_tokens"
            ),
            models.Index(
                fields=["project", "-listed_resident", "id"], name="thread_by_resident"
            ),
            models.Index(
                fields=["project", "-listed_faults", "id"], name="thread_by_faults"
            ),
            models.Index(
                fields=["project", "-listed_rate", "id"], name="thread_by_rate"
            ),
            # When a subject was first seen.
            models.Index(
                fields=["project", "subject", "created_at"], name="thread_first_seen"
            ),
            # The list by creation.
            models.Index(
                fields=["project", "-created_at", "id"], name="thread_by_created"
            ),
            # What the worker that makes levels looks for, longest silent first.
            models.Index(
                fields=["listed_at"],
                condition=models.Q(levels_due=True),
                name="thread_levels_due",
            ),
            # And the one that observes.
            models.Index(
                fields=["listed_at"],
                condition=models.Q(observer_due=True),
                name="thread_observer_due",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class ThreadLabel(models.Model):
    """One label of a thread, for filtering."""

    pk = models.CompositePrimaryKey("thread_id", "name")
    thread = models.ForeignKey(
        Thread, models.CASCADE, related_name="thread_labels", db_index=False
    )
    name = NameField()
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="+", db_index=False
    )
    #: The value as text: `abc`, `1`, `0.5`, `true`.
    value = NameField()

    privacy = Privacy(
        subject="thread__subject",
        exported="state/threads.jsonl",
        forget=Fate.DELETED,
        holds=fields(id="thread project", name="name value"),
    )

    class Meta:
        indexes = [
            # `label.<name>=` of the list of threads.
            models.Index(fields=["project", "name", "value"], name="label_value"),
        ]

    def __str__(self) -> str:
        return str(self.thread_id)
