"""Damages that make an instance unfit to start. They run in the instance."""

from __future__ import annotations

from django.core.management import call_command
from django.db import connections

from memoryhub.models.keys import KeyMeta, NewestLine
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.vault.proof import ledger


def drop_trigger(name: str, table: str) -> None:
    connection = connections["default"]
    on = f" ON memoryhub_{table}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_{table}_{name}{on}")


def migrate_beyond(alias: str, name: str) -> None:
    """Simulate a migration of a newer version."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('memoryhub', %s, CURRENT_TIMESTAMP)",
            [name],
        )


def migrate_before(alias: str) -> None:
    """Simulate migrations of an older version, which exist no more."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "UPDATE django_migrations SET name = 'of_before' WHERE app = 'memoryhub'"
        )


def apply_a_line(alias: str) -> None:
    """Append a ledger line and apply it to one of the two databases only."""
    line = ledger.append(
        kind="intent",
        erasure=uuid7(),
        project=uuid7(),
        subject=uuid7(),
        subject_ref=None,
        scope="subject",
        reason="test",
        targets=[],
        at=clock.now(),
    )
    if alias == "default":
        Instance.objects.update(ledger_n=line.n, ledger_hash=line.hash)
        NewestLine.objects.using("keys").all().delete()


def take_other_keys() -> None:
    """Give the keys database the id of another instance."""
    KeyMeta.objects.using("keys").update(instance=uuid7())


def serve_with(pragma: str) -> None:
    """Serve with a PRAGMA that overrides ours."""
    options = connections["default"].settings_dict["OPTIONS"]
    options["init_command"] += f";PRAGMA {pragma}"
    call_command("serve", port=0)
