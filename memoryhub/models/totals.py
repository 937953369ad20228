from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.subjects import Subject


class Total(models.Model):
    """Number and size of a subject's records of one kind, to avoid counting.

    Every write updates the numbers. Rows hold only numbers, no memory.
    """

    pk = models.CompositePrimaryKey("subject_id", "kind")
    subject = models.ForeignKey(
        Subject, models.CASCADE, related_name="totals", db_index=False
    )
    #: A type of event, or rows: `threads:open`, `pages`, `pages:deleted`, `levels:1`,
    #: `keys`.
    kind = models.CharField(max_length=40)
    records = models.BigIntegerField(default=0)
    #: For events: number with content, number with erased content, and stored bytes of
    #: contents.
    sealed = models.BigIntegerField(default=0)
    erased = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)

    privacy = Privacy(
        # The exported records imply these numbers.
        subject="subject",
        forget=Fate.DELETED,
        passing=True,
        holds=parse_fields(
            id="subject", word="kind", number="records sealed erased bytes"
        ),
    )

    def __str__(self) -> str:
        return f"{self.subject_id}/{self.kind}"
