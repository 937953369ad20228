from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, parse_fields
from memoryhub.models.threads import Thread


class Derivation(models.Model):
    """A record derived from a source record, and erased with the source."""

    pk = models.CompositePrimaryKey(
        "thread_id", "source_seq", "derived_thread", "derived_seq"
    )
    #: Thread of the source.
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
        holds=parse_fields(id="thread derived_thread", number="source_seq derived_seq"),
    )

    class Meta:
        indexes = [
            # Sources of a record, and records derived in a thread.
            models.Index(
                fields=["derived_thread", "derived_seq"], name="derivation_derived"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.source_seq}"
