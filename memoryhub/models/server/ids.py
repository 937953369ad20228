"""Server ids: UUIDv7, so that rows made together lie together on disk."""

from __future__ import annotations

import os
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from memoryhub.models.server.clock import clock


def uuid7() -> UUID:
    """Make an id: 48 bits of milliseconds, 74 random bits (RFC 9562, section 5.7)."""
    millis = clock.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10))
    value = (millis & 0xFFFF_FFFF_FFFF) << 80
    value |= 0x7 << 76 | (chance >> 68) << 64
    value |= 0b10 << 62 | chance & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(int=value)


class NameField(models.CharField):  # type: ignore[type-arg]  # generic in stubs only
    """A name that a client chose; compared and sorted bytewise on both engines."""

    def __init__(self, **options: object) -> None:
        options.setdefault("max_length", 128)
        super().__init__(**options)  # type: ignore[arg-type]  # options of CharField

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, str | None]:
        parameters = super().db_parameters(connection)
        # SQLite compares bytes by default; PostgreSQL compares by locale.
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        return parameters
