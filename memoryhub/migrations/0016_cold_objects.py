"""Cold objects, and triggers that let a payload give way to a reference and back.

Of an event a move changes nothing but the payload: to a reference of 29 bytes that
begins with 0x03, or back. PostgreSQL also checks that the payload that comes back is
the one that went; on SQLite `verify` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, ClassVar

import django.db.models.deletion
from django.db import migrations, models

from memoryhub.models.server.ids import uuid7

triggers: Any = import_module("memoryhub.migrations.0002_triggers")

_ERASES = "NEW.payload IS NULL AND NEW.erased_by IS NOT NULL"
_SQLITE_MOVES = """coalesce(
    OLD.erased_by IS NULL AND NEW.erased_by IS NULL AND NEW.body = OLD.body
    AND (length(OLD.payload) = 29 AND hex(substr(OLD.payload, 1, 1)) = '03')
     <> (length(NEW.payload) = 29 AND hex(substr(NEW.payload, 1, 1)) = '03'), 0)"""
_POSTGRES_MOVES = """coalesce(
    OLD.erased_by IS NULL AND NEW.erased_by IS NULL AND NEW.body = OLD.body
    AND ((length(OLD.payload) = 29 AND get_byte(OLD.payload, 0) = 3
          AND sha256(NEW.payload) = OLD.payload_digest)
      OR (length(NEW.payload) = 29 AND get_byte(NEW.payload, 0) = 3
          AND sha256(OLD.payload) = OLD.payload_digest)), false)"""


def iter_statements(*, postgres: bool) -> Iterator[str]:
    """Iterate over what makes every trigger of an engine, as of this migration."""
    move = _POSTGRES_MOVES if postgres else _SQLITE_MOVES
    changed = _get_start(postgres=postgres)
    for statement in triggers.iter_statements(postgres=postgres):
        if statement.startswith(changed):
            assert _ERASES in statement
            yield statement.replace(_ERASES, f"(({_ERASES}) OR {move})")
        else:
            yield statement


def allow_moves(apps: Any, schema_editor: Any) -> None:
    _replace_trigger(schema_editor, iter_statements)


def forbid_moves(apps: Any, schema_editor: Any) -> None:
    _replace_trigger(schema_editor, triggers.iter_statements)


def _replace_trigger(
    schema_editor: Any, iter_all: Callable[..., Iterator[str]]
) -> None:
    postgres = schema_editor.connection.vendor == "postgresql"
    start = _get_start(postgres=postgres)
    (statement,) = (
        each for each in iter_all(postgres=postgres) if each.startswith(start)
    )
    if not postgres:
        schema_editor.execute("DROP TRIGGER memoryhub_event_update")
    schema_editor.execute(
        statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    )


def _get_start(*, postgres: bool) -> str:
    """Return the beginning of the one statement that this migration replaces."""
    if postgres:
        return "CREATE FUNCTION memoryhub_event_guard"
    return "CREATE TRIGGER memoryhub_event_update"


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0015_reflector_instructions")]

    operations: ClassVar = [
        migrations.CreateModel(
            name="ColdObject",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("writing", "Writing"),
                            ("cold", "Cold"),
                            ("returned", "Returned"),
                            ("doomed", "Doomed"),
                        ],
                        default="writing",
                        max_length=8,
                    ),
                ),
                ("payloads", models.IntegerField()),
                ("bytes", models.BigIntegerField()),
                ("changed_at", models.DateTimeField()),
                (
                    "thread",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="cold_objects",
                        to="memoryhub.thread",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "cold"), _negated=True),
                        fields=["state", "changed_at"],
                        name="cold_object_due",
                    )
                ],
            },
        ),
        migrations.RunPython(
            allow_moves, forbid_moves, hints={"home": "default"}, elidable=False
        ),
    ]
