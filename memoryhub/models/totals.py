from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, fields
from memoryhub.models.subjects import Subject


class Total(models.Model):
    """How much of one kind there is of a subject, so that nobody has to count it.

    Every write adds what it changes; nobody's memory stands in it, only numbers.
    """

    pk = models.CompositePrimaryKey("subject_id", "kind")
    subject = models.ForeignKey(
        Subject, models.CASCADE, related_name="totals", db_index=False
    )
    #: A type of event, or rows: `threads:open`, `pages`, `pages:deleted`, `levels:1`,
    #: `keys`.
    kind = models.CharField(max_length=40)
    records = models.BigIntegerField(default=0)
    #: Of events: those that have a content, those that had one that was erased, and
    #: the bytes of the contents as they are stored.
    sealed = models.BigIntegerField(default=0)
    erased = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)

    privacy = Privacy(
        # What is exported tells them as well.
        subject="subject",
        forget=Fate.DELETED,
        passing=True,
        holds=fields(id="subject", word="kind", number="records sealed erased bytes"),
    )

    def __str__(self) -> str:
        return f"{self.subject_id}/{self.kind}"
