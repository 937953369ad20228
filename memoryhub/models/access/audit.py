"""The audit log: actors' actions on subjects' memory, in closed words and one chain."""

from __future__ import annotations

from django.db import models

from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.subjects import Subject


class AuditEntry(models.Model):
    """One line of the audit log. Triggers forbid changing or deleting rows."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    #: None for an action on the whole instance.
    project = models.UUIDField(null=True)
    #: `operator`, `agent`, `worker`, `command`.
    actor_kind = models.CharField(max_length=8)
    #: Operator's id, key's prefix or worker's word.
    actor_ref = models.CharField(max_length=64)
    action = models.CharField(max_length=40)
    purpose = models.CharField(max_length=15, null=True)
    #: `thread`, `subject`, `erasure`, `key` …
    target_kind = models.CharField(max_length=16, null=True)
    target_id = models.CharField(max_length=64, null=True)
    #: Keyed digest, which nobody can compute once the subject's key is gone.
    subject = models.BinaryField(max_length=8, null=True)
    #: `done`, `refused` or the code of the refusal.
    outcome = models.CharField(max_length=40)
    count = models.BigIntegerField(default=0)
    #: Route template and range of seqs of a look; the area of changed settings.
    route = models.CharField(max_length=120, null=True)
    first_seq = models.BigIntegerField(null=True)
    last_seq = models.BigIntegerField(null=True)
    #: Id of the view that a look belongs to; see decision 94.
    request_id = models.CharField(max_length=36, null=True)
    prev = models.BinaryField(max_length=32)
    hash = models.BinaryField(max_length=32)

    privacy = Privacy(
        # Subjects appear only as a pseudonym, useless without the subject's key.
        forget=Fate.STAYS,
        holds=parse_fields(
            id="project actor_ref target_id request_id",
            number="seq count first_seq last_seq",
            word="actor_kind action purpose target_kind outcome route",
            digest="subject prev hash",
            time="at",
        ),
    )

    class Meta:
        indexes = [
            models.Index(fields=["project", "-seq"], name="audit_project"),
            models.Index(fields=["project", "action", "-seq"], name="audit_action"),
            models.Index(fields=["project", "actor_ref", "-seq"], name="audit_actor"),
            models.Index(fields=["project", "target_id", "-seq"], name="audit_target"),
            models.Index(
                fields=["subject", "-seq"],
                name="audit_subject",
                condition=models.Q(subject__isnull=False),
            ),
            models.Index(
                fields=["request_id", "seq"],
                name="audit_view",
                condition=models.Q(request_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.seq)


class DailyUse(models.Model):
    """Count of one key's reads and writes of a subject's memory on one day (UTC)."""

    pk = models.CompositePrimaryKey("subject_id", "day", "key_id")
    subject = models.ForeignKey(
        Subject, models.CASCADE, related_name="daily_uses", db_index=False
    )
    day = models.DateField()
    key = models.ForeignKey(ApiKey, models.CASCADE, related_name="+", db_index=False)
    reads = models.BigIntegerField(default=0)
    writes = models.BigIntegerField(default=0)

    privacy = Privacy(
        subject="subject",
        exported="access.jsonl",
        forget=Fate.DELETED,
        passing=True,
        holds=parse_fields(id="subject key", number="reads writes", time="day"),
    )

    def __str__(self) -> str:
        return f"{self.subject_id}/{self.day}"
