from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, parse_fields
from memoryhub.models.server.ids import NameField
from memoryhub.models.threads import Thread


class Page(models.Model):
    """An entry of a thread's page table, without residency.

    A fork has rows of its own only for the pages it made, changed or deleted.
    """

    pk = models.CompositePrimaryKey("thread_id", "page_id")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="pages", db_index=False
    )
    page_id = NameField()
    #: Clock and turn of the thread at the event that made the page.
    created_seq = models.BigIntegerField()
    created_turn = models.BigIntegerField()
    #: Seq of the event that made the row: page.created, or a fork's first change.
    seq = models.BigIntegerField()
    deleted_seq = models.BigIntegerField(null=True)
    version = models.IntegerField()
    type = models.CharField(max_length=10)
    modality = models.CharField(max_length=10)
    importance = models.FloatField()
    role = models.CharField(max_length=9, null=True)
    #: Index of the page's slot.
    slot = models.BigIntegerField(null=True)
    home = models.CharField(max_length=2, default="L2")
    #: Place of FULL of this version; `full_thread` only if an ancestor has the text.
    full_seq = models.BigIntegerField()
    full_thread = models.UUIDField(null=True)
    tokens = models.IntegerField()
    #: Tokens of the page's line in the context; far above `tokens` for a short text
    #: with a high count by its agent.
    cost = models.BigIntegerField()
    #: Place of the event whose payload has the agent's hint.
    hint_seq = models.BigIntegerField(null=True)
    hint_thread = models.UUIDField(null=True)
    #: Name of a block, if that is not the block's id.
    name = NameField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="state/pages.jsonl",
        forget=Fate.DELETED,
        read_by_forks=True,
        references=(
            Reference("thread_id", "full_seq", unless=("full_thread", "deleted_seq")),
            Reference("full_thread", "full_seq", unless=("deleted_seq",)),
        ),
        holds=parse_fields(
            id="thread full_thread hint_thread",
            name="page_id name",
            word="type modality role home",
            number="created_seq created_turn seq deleted_seq version importance"
            " slot full_seq tokens cost hint_seq",
        ),
    )

    class Meta:
        indexes = [
            # Page table in the order of creation, and as of a seq.
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
    #: Place of the text; `source` only if an ancestor has the text.
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
        holds=parse_fields(
            id="thread source",
            name="page_id",
            word="producer home",
            number="version level seq tokens cost",
        ),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.page_id}~{self.level}"


class EvictedPage(models.Model):
    """One page of an event that names several, for look-ups of a page's history.

    Such events are pages.evicted, which names the table, pages.cited and turn.rated.
    """

    pk = models.CompositePrimaryKey("thread_id", "page", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="evicted_pages", db_index=False
    )
    page = NameField()
    #: Seq of the event.
    seq = models.BigIntegerField()

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        # No reference: a row repeats the body of its event, and stays as long as that.
        holds=parse_fields(id="thread", name="page", number="seq"),
    )

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.page}@{self.seq}"
