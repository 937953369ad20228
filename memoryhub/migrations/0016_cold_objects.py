"""Cold objects, and triggers that let a payload give way to a reference and back.

Of an event a move changes nothing but the payload: to a reference of 29 bytes that
begins with 0x03, or back. PostgreSQL also checks that the payload that comes back is
the one that went; on SQLite `verify` does.
"""

from __future__ import annotations

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


def allow_moves(apps: Any, schema_editor: Any) -> None:
    _replace_trigger(schema_editor, moves=True)


def forbid_moves(apps: Any, schema_editor: Any) -> None:
    _replace_trigger(schema_editor, moves=False)


def _replace_trigger(schema_editor: Any, *, moves: bool) -> None:
    postgres = schema_editor.connection.vendor == "postgresql"
    name = "memoryhub_event_guard" if postgres else "memoryhub_event_update"
    (statement,) = (
        each
        for each in triggers.iter_statements(postgres=postgres)
        if each.startswith(("CREATE FUNCTION " + name, "CREATE TRIGGER " + name))
    )
    if moves:
        move = _POSTGRES_MOVES if postgres else _SQLITE_MOVES
        assert _ERASES in statement
        statement = statement.replace(_ERASES, f"(({_ERASES}) OR {move})")
    if postgres:
        statement = statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    else:
        schema_editor.execute(f"DROP TRIGGER {name}")
    schema_editor.execute(statement)


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
