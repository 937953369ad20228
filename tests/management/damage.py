"""What makes an instance unfit to start. Runs in the instance."""

from __future__ import annotations

from django.db import connections

from memoryhub.models.ids import uuid7
from memoryhub.models.keys import KeyMeta


def drop_trigger(name: str) -> None:
    connection = connections["default"]
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_event_{name}{on}")


def migrate_beyond(alias: str) -> None:
    """As if a newer version had been here."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('memoryhub', '9999_later', CURRENT_TIMESTAMP)"
        )


def take_other_keys() -> None:
    """As if the keys database were another instance's."""
    KeyMeta.objects.using("keys").update(instance=uuid7())
