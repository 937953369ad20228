"""Triggers that protect append-only rows: a comparison with the migrations' triggers.

The wanted triggers are read from the newest migration that changes one.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from django.db import connections

from memoryhub.distribution import PROGRAM
from memoryhub.errors import StartRefusedError

#: Imported by name, since a module name with a leading digit is no identifier.
_MADE: Final = import_module("memoryhub.migrations.0016_cold_objects")
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+) .*? ON (\w+)")
_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\(\) RETURNS trigger AS \$\$(.*)\$\$")
_SQLITE: Final = """SELECT name, sql FROM sqlite_master
    WHERE type = 'trigger' AND tbl_name = %s"""
#: Excludes triggers that fire on replicas only, and triggers whose function has a
#: search path of its own.
_POSTGRES: Final = """SELECT tgname, pg_get_triggerdef(pg_trigger.oid, true), prosrc
    FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE tgrelid = %s::regclass AND NOT tgisinternal AND tgenabled IN ('O', 'A')
      AND proconfig IS NULL"""


def refuse_changed() -> None:
    """Refuse to start if a trigger that protects append-only rows was changed."""
    missing, changed = [], []
    for table, wanted in list_expected().items():
        present = _list_present(table)
        missing += sorted(wanted.keys() - present.keys())
        changed += sorted(
            name
            for name, text in present.items()
            if wanted.get(name) != text
            and (name in wanted or not _is_after_trigger(text))
        )
    for code, names in (("missing", missing), ("changed", changed)):
        if names:
            raise StartRefusedError(
                f"triggers_{code}: {', '.join(names)} of the database must be what the "
                f"migrations make, or what must stay could be changed; run `{PROGRAM} "
                "verify --all` and restore a backup"
            )


def _is_after_trigger(text: str) -> bool:
    """Return whether a trigger runs after the change, so that it cannot disable a
    guard."""
    return f" {text} ".partition(" ON ")[0].find(" AFTER ") > 0


def list_expected() -> dict[str, dict[str, str]]:
    """Return each table's triggers and their functions, as the migration has them."""
    postgres = connections["default"].vendor == "postgresql"
    statements = [_normalise(text) for text in _MADE.iter_statements(postgres=postgres)]
    functions = {
        found[1]: found[2].strip()
        for text in statements
        if (found := _FUNCTION.match(text))
    }
    made: dict[str, dict[str, str]] = {}
    for text in statements:
        if found := _TRIGGER.match(text):
            called = text.rpartition(" ")[2].removesuffix("()")
            made.setdefault(found[2], {})[found[1]] = text + functions.get(called, "")
    return made


def _list_present(table: str) -> dict[str, str]:
    connection = connections["default"]
    query = _SQLITE if connection.vendor == "sqlite" else _POSTGRES
    with connection.cursor() as cursor:
        cursor.execute(query, [table])
        rows = cursor.fetchall()
    return {name: "".join(map(_normalise, texts)) for name, *texts in rows}


def _normalise(text: str) -> str:
    return " ".join(text.split())
