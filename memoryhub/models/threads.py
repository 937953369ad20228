from __future__ import annotations

import os
from typing import ClassVar, Self

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField, uuid7
from memoryhub.models.subjects import Subject

#: `listed_rate` of threads without an exchange, which lists by rate place last.
UNRATED = 1_001


class KeepsOwnRetention(models.Func):
    """Condition on threads whose config may set a retention.

    The statement holds the word itself: SQLite uses a partial index only for a
    condition without parameters.
    """

    # Django's templates halve the percent signs, and so does every statement.
    template = "(%(expressions)s LIKE '%%%%\"retention_idle_days\"%%%%')"
    output_field = models.BooleanField()


def name_salt() -> bytes:
    return os.urandom(16)


class ThreadQuerySet(models.QuerySet["Thread"]):
    def filter_visible(self, project: Project) -> Self:
        """Filter a project's threads, except threads being imported."""
        return self.filter(project=project).exclude(status=Thread.Status.IMPORTING)


class Thread(models.Model):
    """A thread, named by the agent. Its counters repeat the folded state."""

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
    #: Whether the thread is the subject's home, which holds blocks and facts.
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
    #: Tokens in the working set, and tokens that the working set may hold.
    resident_tokens = models.IntegerField(default=0)
    capacity_tokens = models.IntegerField(default=0)
    tlb_hits = models.BigIntegerField(default=0)
    tlb_misses = models.BigIntegerField(default=0)
    fault_count = models.BigIntegerField(default=0)
    eviction_count = models.BigIntegerField(default=0)
    #: Refaults in the last turns; divided by the turns, the thrash index.
    refault_count = models.IntegerField(default=0)
    #: Number of the model's exchanges, of those with a page fault, and of those with a
    #: page fault among the last 20.
    exchange_count = models.BigIntegerField(default=0)
    faulted_exchange_count = models.BigIntegerField(default=0)
    faulted_lately_count = models.IntegerField(default=0)
    #: Tokens of the thread's own requests, of the prefixes that these share with the
    #: request before, and of the model's messages since the first turn. Added up by
    #: each write, and not part of the fold.
    request_tokens = models.BigIntegerField(default=0)
    prefix_tokens = models.BigIntegerField(default=0)
    answer_tokens = models.BigIntegerField(default=0)
    #: The working set is about to evict pages, and no worker has yet looked for levels
    #: to make for these pages.
    levels_due = models.BooleanField(default=False)
    #: Whether an observer has work in the thread. None in rows older than observers.
    observer_due = models.BooleanField(null=True)
    #: Whether consolidations are requested in a home thread; None: there are none.
    has_requests = models.BooleanField(null=True)
    #: Whether a home thread's predicates are still folded as an older version did;
    #: None: they are not.
    predicates_due = models.BooleanField(null=True)
    created_at = models.DateTimeField()
    last_event_at = models.DateTimeField()
    last_event_type = models.CharField(max_length=40, default="")
    last_active_at = models.DateTimeField(null=True)
    #: Copies of the last event's time and of counts, made at most every 10 s. Lists
    #: sort by the copies, so that a busy thread does not churn the indexes.
    listed_at = models.DateTimeField()
    listed_slots = models.BigIntegerField(default=0)
    listed_turns = models.BigIntegerField(default=0)
    listed_tokens = models.BigIntegerField(default=0)
    listed_resident = models.IntegerField(default=0)
    listed_faults = models.BigIntegerField(default=0)
    #: Share of the last exchanges without a page fault, in thousandths; `UNRATED`
    #: before the first exchange. The worst come first.
    listed_rate = models.IntegerField(default=UNRATED)
    #: Head at the last anchor, a signed line outside the database.
    anchored_seq = models.BigIntegerField(default=0)
    #: Seq up to which names in bodies of an erased thread are blanked.
    blanked_seq = models.BigIntegerField(default=0)
    anchored_hash = models.BinaryField(max_length=32, default=bytes)
    #: JSON origin of a thread imported from a bundle: [instance, thread, head hash].
    origin = models.TextField(default="")

    privacy = Privacy(
        subject="subject",
        exported="state/threads.jsonl",
        forget=Fate.BLANKED,
        of_thread="id",
        remaining=~models.Q(name__startswith="~"),
        holds=parse_fields(
            id="id project subject parent",
            name="name agent_type agent_instance session labels",
            # The salt is used in digests of names and is no name itself.
            digest="name_salt head_hash anchored_hash",
            word="status home nearly_full last_event_type levels_due observer_due"
            " has_requests predicates_due",
            number="fork_seq head_seq slot_count turn_count token_count byte_count"
            " listed_slots listed_turns listed_tokens listed_resident listed_faults"
            " listed_rate anchored_seq blanked_seq resident_tokens"
            " capacity_tokens tlb_hits tlb_misses"
            " fault_count eviction_count refault_count exchange_count"
            " faulted_exchange_count faulted_lately_count request_tokens prefix_tokens"
            " answer_tokens",
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
            # A thread being imported may stand beside an erased home thread.
            models.UniqueConstraint(
                name="one_home_thread",
                fields=["subject"],
                condition=models.Q(home=True)
                & ~models.Q(status__in=["erased", "importing"]),
            ),
        ]
        indexes = [
            # Threads of a subject, and its home thread, which every turn reads.
            models.Index(fields=["subject", "home"], name="thread_of_subject"),
            # List of threads, and the list filtered by one facet.
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
            # List sorted by other columns, in either direction.
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
            # First appearance of a subject.
            models.Index(
                fields=["project", "subject", "created_at"], name="thread_first_seen"
            ),
            # List by creation.
            models.Index(
                fields=["project", "-created_at", "id"], name="thread_by_created"
            ),
            # Threads due for the level worker, longest silent first.
            models.Index(
                fields=["listed_at"],
                condition=models.Q(levels_due=True),
                name="thread_levels_due",
            ),
            # Threads due for the observer.
            models.Index(
                fields=["listed_at"],
                condition=models.Q(observer_due=True),
                name="thread_observer_due",
            ),
            # Home threads with requests for the consolidator.
            models.Index(
                fields=["subject"],
                condition=models.Q(has_requests=True),
                name="thread_has_requests",
            ),
            # Home threads whose predicates are to be folded anew.
            models.Index(
                fields=["id"],
                condition=models.Q(predicates_due=True),
                name="thread_predicates_due",
            ),
            # Threads whose messages are nearly full.
            models.Index(
                fields=["project", "status", "-listed_at"],
                condition=models.Q(nearly_full=True),
                name="thread_nearly_full",
            ),
            # Threads that may be due by a retention of their own.
            models.Index(
                fields=["project", "status"],
                condition=models.Q(KeepsOwnRetention("config")),
                name="thread_own_retention",
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
        holds=parse_fields(id="thread project", name="name value"),
    )

    class Meta:
        indexes = [
            # Filter `label.<name>=` of the list of threads.
            models.Index(fields=["project", "name", "value"], name="label_value"),
        ]

    def __str__(self) -> str:
        return str(self.thread_id)
