from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, fields
from memoryhub.models.server.ids import NameField


class Lease(models.Model):
    """Which process does a kind of background work, and until when if it dies."""

    name = NameField(max_length=40, primary_key=True)
    #: Of the process; it makes one up when it starts.
    holder = models.UUIDField()
    #: When the holder last said that it lives.
    beaten_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    privacy = Privacy(
        # Of an export the name has the project's id.
        holds=fields(id_word="name", id="holder", time="beaten_at expires_at"),
    )

    def __str__(self) -> str:
        return str(self.name)
