from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, parse_fields
from memoryhub.models.threads import Thread


class Assertion(models.Model):
    """An assertion of a home thread, or an operator's setting of one of its timelines.

    Facts are derived from these rows; texts are in payloads alone. All but the first
    columns are derived from the payload, and are deleted with it.
    """

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="assertions", db_index=False
    )
    seq = models.BigIntegerField()
    #: Origin of the claim: `agent`, `model`, `operator`, `import`.
    origin = models.CharField(max_length=16)
    retracted_seq = models.BigIntegerField(null=True)
    #: Whether the assertion was retracted as wrong.
    wrong = models.BooleanField()
    #: `single`, `multi`, or empty for neither; null in a claim.
    cardinality = models.CharField(max_length=8, null=True)
    #: Keyed digests of folded texts: of entity and predicate, of each, of the value.
    timeline = models.BinaryField(max_length=16)
    entity = models.BinaryField(max_length=16)
    predicate = models.BinaryField(max_length=16)
    value = models.BinaryField(max_length=16)
    #: Whether the assertion or its predicate allows several values at once.
    many = models.BooleanField()
    confidence = models.FloatField(null=True)
    valid_from = models.DateTimeField(null=True)
    valid_until = models.DateTimeField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="state/assertions.jsonl",
        forget=Fate.DELETED,
        references=(Reference("thread_id", "seq"),),
        holds=parse_fields(
            id="thread",
            digest="timeline entity predicate value",
            number="seq retracted_seq confidence",
            word="origin wrong cardinality many",
            time="valid_from valid_until",
        ),
    )

    class Meta:
        indexes = [
            # One timeline, and timelines in order.
            models.Index(
                fields=["thread", "timeline", "seq"], name="assertion_timeline"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.seq}"
