from __future__ import annotations

from django.db import models

from memoryhub.models.privacy import Privacy, parse_fields


class Heartbeat(models.Model):
    """Heartbeat of a process on this machine: wall time and time since boot.

    Used on SQLite, which has no clock of its own; the oldest process counts as right.
    """

    #: Random id that the process chose at its start.
    process = models.UUIDField(unique=True)
    #: Time of the process's clock, and nanoseconds since boot, at the heartbeat.
    beaten_at = models.DateTimeField()
    ticks_ns = models.BigIntegerField()

    privacy = Privacy(
        holds=parse_fields(id="id process", time="beaten_at", number="ticks_ns")
    )

    def __str__(self) -> str:
        return str(self.process)
