from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, fields


class Heartbeat(models.Model):
    """A process that runs on this machine, and what time it goes by.

    Kept on SQLite, where no database has a clock of its own; the eldest is believed.
    """

    #: It makes one up when it starts.
    process = models.UUIDField(unique=True)
    #: What time it was for the process, and how long the machine had run by then.
    beaten_at = models.DateTimeField()
    ticks_ns = models.BigIntegerField()

    privacy = Privacy(
        holds=fields(id="id process", time="beaten_at", number="ticks_ns")
    )

    def __str__(self) -> str:
        return str(self.process)
