"""Triggers that protect append-only rows: a comparison with the migrations' triggers.

The wanted triggers are read from the newest migration that changes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from django.db import connections

from memoryhub.distribution import PROGRAM
from memoryhub.errors import StartRefusedError
from memoryhub.models import per_thread
from memoryhub.models.events import Event

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


#: Condition of the migrations under which an import's events may be deleted, and the
#: condition on a cluster, whose workers cannot read the status of a thread.
_IMPORTING: Final = (
    "(SELECT status FROM memoryhub_thread WHERE id = OLD.thread_id) = 'importing'"
)
_REMOVING: Final = (
    "OLD.thread_id::text = "
    "ANY(string_to_array(current_setting('memoryhub.removing', true), ','))"
)


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
    distributed = Event._meta.db_table in per_thread.list_distributed()
    statements = [
        _normalise(text)
        for text in iter_statements(postgres=postgres, distributed=distributed)
    ]
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


def iter_statements(*, postgres: bool, distributed: bool) -> Iterator[str]:
    """Iterate over what makes every trigger of a hub, on a cluster or not."""
    for text in _MADE.iter_statements(postgres=postgres):
        yield text.replace(_IMPORTING, _REMOVING) if distributed else text


def _list_present(table: str) -> dict[str, str]:
    connection = connections["default"]
    query = _SQLITE if connection.vendor == "sqlite" else _POSTGRES
    with connection.cursor() as cursor:
        cursor.execute(query, [table])
        rows = cursor.fetchall()
    return {name: "".join(map(_normalise, texts)) for name, *texts in rows}


def _normalise(text: str) -> str:
    return " ".join(text.split())
