from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Fate, Privacy, parse_fields
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import NameField, uuid7
from memoryhub.models.subjects import Subject

MEMORY_SCOPES = ("memory:read", "memory:write")
SUBJECT_SCOPES = ("subject:export", "subject:forget", "admin")


class ApiKey(models.Model):
    """An API key, by which an agent authenticates. Only its digest is stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="api_keys")
    prefix = NameField(max_length=8, unique=True)
    #: Name for people, after the key's use; empty for a key without a name.
    name = NameField(max_length=64, default="")
    #: SHA-256 of the whole key: 256 bits of chance need no slow hash.
    digest = models.BinaryField(max_length=32)
    #: Space-separated words, sorted.
    scopes = models.CharField(max_length=120)
    subject = models.ForeignKey(
        Subject, models.PROTECT, null=True, related_name="api_keys"
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    #: To the minute, so that a busy key writes once a minute.
    last_used_at = models.DateTimeField(null=True)

    privacy = Privacy(
        # A key bound to a subject refers to it by id alone.
        subject="subject",
        forget=Fate.STAYS,
        holds=parse_fields(
            id="id project prefix subject",
            digest="digest",
            title="name",
            word="scopes",
            time="created_at expires_at revoked_at last_used_at",
        ),
    )

    def __str__(self) -> str:
        return str(self.id)
