"""Objects in cold storage that hold payloads of closed threads."""

from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread


class ColdObject(models.Model):
    """An object in cold storage: payloads of one thread, sealed as they are."""

    class State(models.TextChoices):
        #: The object may exist; the rows still hold the payloads.
        WRITING = "writing"
        #: The rows hold references; the object holds the payloads.
        COLD = "cold"
        #: The rows hold the payloads again. The object stays for backups with
        #: references to it.
        RETURNED = "returned"
        #: Some payload was erased: the others come back, and the object goes at once.
        DOOMED = "doomed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    thread = models.ForeignKey(
        Thread, models.PROTECT, related_name="cold_objects", db_index=True
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.WRITING)
    #: Number of payloads, and their bytes.
    payloads = models.IntegerField()
    bytes = models.BigIntegerField()
    #: Instant of the last change of `state`.
    changed_at = models.DateTimeField()

    privacy = Privacy(
        subject="thread__subject",
        forget=Fate.DELETED,
        passing=True,
        holds=parse_fields(
            id="id thread", word="state", number="payloads bytes", time="changed_at"
        ),
    )

    class Meta:
        indexes = [
            # Objects with work to do; nearly all are cold.
            models.Index(
                fields=["state", "changed_at"],
                name="cold_object_due",
                condition=~models.Q(state="cold"),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)
