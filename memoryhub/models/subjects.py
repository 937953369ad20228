from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7


class Subject(models.Model):
    """The person a memory is about. The external id is digested and sealed."""

    class State(models.TextChoices):
        ACTIVE = "active"
        RESTRICTED = "restricted"
        ERASING = "erasing"
        ERASED = "erased"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(
        Project, models.PROTECT, related_name="subjects", db_index=False
    )
    #: Keyed digest of the `user_id`; None for the anonymous subject.
    subject_ref = models.BinaryField(max_length=32, null=True)
    external_id = models.BinaryField(null=True)
    anonymous = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.ACTIVE)
    epoch = models.IntegerField(default=1)
    generation = models.IntegerField(default=1)
    #: Number of the subject's blocked values; with 0 no write looks for tombstones.
    tombstones = models.IntegerField(default=0)
    #: Reason of the restriction, as a closed word; a hold has its own basis.
    basis = models.CharField(max_length=20, default="")
    created_at = models.DateTimeField()

    privacy = Privacy(
        subject="id",
        exported="manifest.json",
        forget=Fate.NULLED,
        remaining=models.Q(subject_ref__isnull=False)
        | models.Q(external_id__isnull=False),
        holds=parse_fields(
            id="id project",
            digest="subject_ref",
            sealed="external_id",
            word="anonymous state basis",
            number="epoch generation tombstones",
            time="created_at",
        ),
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="subject_ref_once", fields=["project", "subject_ref"]
            ),
            models.UniqueConstraint(
                name="one_anonymous_subject",
                fields=["project"],
                condition=models.Q(anonymous=True) & ~models.Q(state="erased"),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)
