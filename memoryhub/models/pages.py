from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, fields
from memoryhub.models.server.ids import NameField
from memoryhub.models.threads import Thread


class Page(models.Model):
    """A line of a thread's page table: what a page is. Residency is no part of it.

    A fork has rows of its own only for the pages it made, changed or deleted.
    """

    pk = models.CompositePrimaryKey("thread_id", "page_id")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="pages", db_index=False
    )
    page_id = NameField()
    #: The thread's clock and turn at the event that made it.
    created_seq = models.BigIntegerField()
    created_turn = models.BigIntegerField()
    #: Of the event that made this row: its own page.created, or a fork's first change.
    seq = models.BigIntegerField()
    deleted_seq = models.BigIntegerField(null=True)
    version = models.IntegerField()
    type = models.CharField(max_length=10)
    modality = models.CharField(max_length=10)
    importance = models.FloatField()
    role = models.CharField(max_length=9, null=True)
    #: Index of the slot whose page it is.
    slot = models.BigIntegerField(null=True)
    home = models.CharField(max_length=2, default="L2")
    #: Where FULL of this version lies; `full_thread` only if it is an ancestor's.
    full_seq = models.BigIntegerField()
    full_thread = models.UUIDField(null=True)
    tokens = models.IntegerField()
    #: Above `tokens`, many times so for a short text that its agent counts dear.
    cost = models.BigIntegerField()
    #: The event whose payload has the agent's hint.
    hint_seq = models.BigIntegerField(null=True)
    hint_thread = models.UUIDField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="state/pages.jsonl",
        forget=Fate.DELETED,
        read_by_forks=True,
        references=(
            Reference("thread_id", "full_seq", unless=("full_thread", "deleted_seq")),
            Reference("full_thread", "full_seq", unless=("deleted_seq",)),
        ),
        holds=fields(
            id="thread full_thread hint_thread",
            name="page_id",
            word="type modality role home",
            number="created_seq created_turn seq deleted_seq version importance"
            " slot full_seq tokens cost hint_seq",
        ),
    )

    class Meta:
        indexes = [
            # The page table in the order pages were made, and as of a seq.
            models.Index(fields=["thread", "seq"], name="page_seq"),
            models.Index(fields=["thread", "type", "seq"], name="page_type"),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.page_id}"


class PageLevel(models.Model):
    """One text of a version of a page: a lower level, or FULL of an old version."""

    pk = models.CompositePrimaryKey("thread_id", "page_id", "version", "level")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="page_levels", db_index=False
    )
    page_id = NameField()
    version = models.IntegerField()
    level = models.IntegerField()
    #: Where it lies; `source` only if it is an ancestor's.
    seq = models.BigIntegerField()
    source = models.UUIDField(null=True)
    tokens = models.IntegerField()
    cost = models.BigIntegerField()
    producer = models.CharField(max_length=64, default="")
    home = models.CharField(max_length=2, default="L2")

    privacy = Privacy(
        subject="thread__subject",
        exported="state/pages.jsonl",
        forget=Fate.DELETED,
        references=(
            Reference("thread_id", "seq", unless=("source",)),
            Reference("source", "seq"),
        ),
        holds=fields(
            id="thread source",
            name="page_id",
            word="producer home",
            number="version level seq tokens cost",
        ),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.page_id}~{self.level}"


class EvictedPage(models.Model):
    """A page of an event that tells of several: its history is found by this."""

    pk = models.CompositePrimaryKey("thread_id", "page", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="evicted_pages", db_index=False
    )
    page = NameField()
    #: Of the pages.evicted.
    seq = models.BigIntegerField()

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        # No reference: a row repeats the body of its event, and stays as long as that.
        holds=fields(id="thread", name="page", number="seq"),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.page}@{self.seq}"
