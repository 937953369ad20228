from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, fields
from memoryhub.models.threads import Thread


class Derivation(models.Model):
    """A record that was made of another one: erasing the source erases it too."""

    pk = models.CompositePrimaryKey(
        "thread_id", "source_seq", "derived_thread", "derived_seq"
    )
    #: The source's.
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="derivations", db_index=False
    )
    source_seq = models.BigIntegerField()
    derived_thread = models.UUIDField()
    derived_seq = models.BigIntegerField()

    privacy = Privacy(
        subject="thread__subject",
        exported="events.jsonl",
        forget=Fate.DELETED,
        references=(
            Reference("thread_id", "source_seq"),
            Reference("derived_thread", "derived_seq"),
        ),
        holds=fields(id="thread derived_thread", number="source_seq derived_seq"),
    )

    class Meta:
        indexes = [
            # What a record was made of, and what a thread has made.
            models.Index(
                fields=["derived_thread", "derived_seq"], name="derivation_derived"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.source_seq}"
