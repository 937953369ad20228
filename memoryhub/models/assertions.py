from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, Reference, fields
from memoryhub.models.threads import Thread


class Assertion(models.Model):
    """A claim of a home thread, or what an operator set of one of its timelines.

    Facts are derived from rows: what they say stands in payloads alone. All but the
    first columns are made of the payload, and stand here only as long as it does.
    """

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="assertions", db_index=False
    )
    seq = models.BigIntegerField()
    #: Who claims it: `agent`, `model`, `operator`, `import`.
    origin = models.CharField(max_length=16)
    retracted_seq = models.BigIntegerField(null=True)
    #: It was retracted as wrong.
    wrong = models.BooleanField()
    #: `single`, `multi`, or empty for neither; null in a claim.
    cardinality = models.CharField(max_length=8, null=True)
    #: Keyed digests of folded texts: of entity and predicate, of each, of the value.
    timeline = models.BinaryField(max_length=16)
    entity = models.BinaryField(max_length=16)
    predicate = models.BinaryField(max_length=16)
    value = models.BinaryField(max_length=16)
    #: It says, or its predicate does, that several values hold at once.
    many = models.BooleanField()
    confidence = models.FloatField(null=True)
    valid_from = models.DateTimeField(null=True)
    valid_until = models.DateTimeField(null=True)

    privacy = Privacy(
        subject="thread__subject",
        exported="state/assertions.jsonl",
        forget=Fate.DELETED,
        references=(Reference("thread_id", "seq"),),
        holds=fields(
            id="thread",
            digest="timeline entity predicate value",
            number="seq retracted_seq confidence",
            word="origin wrong cardinality many",
            time="valid_from valid_until",
        ),
    )

    class Meta:
        indexes = [
            # A timeline, and timelines one after the other.
            models.Index(
                fields=["thread", "timeline", "seq"], name="assertion_timeline"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.thread_id}@{self.seq}"
