from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, parse_fields
from memoryhub.models.server.ids import NameField


class Lease(models.Model):
    """Lease of one process on a kind of background work, with an expiry."""

    name = NameField(max_length=40, primary_key=True)
    #: Random id that the holding process chose at its start.
    holder = models.UUIDField()
    #: Instant of the holder's last heartbeat.
    beaten_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    privacy = Privacy(
        # The name of an export's lease contains the project's id.
        holds=parse_fields(id_word="name", id="holder", time="beaten_at expires_at"),
    )

    def __str__(self) -> str:
        return str(self.name)
