"""Removal of permanent rows, which triggers keep, after a test that committed them.

No lawful way to delete the rows exists, so the triggers are put aside and back again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Receipt

KEPT: tuple[type[Model], ...] = (AuditEntry, Receipt)


def sweep() -> None:
    """Delete every audit entry and receipt."""
    for model in KEPT:
        rows = model._default_manager.all()
        if rows.exists():
            with transaction.atomic(), unguarded(model):
                rows.delete()


@contextmanager
def unguarded(model: type[Model]) -> Iterator[None]:
    """Put the triggers of a table aside, as somebody may who can alter tables."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        triggers = _put_aside(cursor, table)
        yield
        _put_back(cursor, table, triggers)


def _put_aside(cursor: Any, table: str) -> list[str]:
    if connection.vendor == "postgresql":
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        return []
    cursor.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s",
        [table],
    )
    triggers = cursor.fetchall()
    for name, _ in triggers:
        cursor.execute(f"DROP TRIGGER {name}")
    return [sql for _, sql in triggers]


def _put_back(cursor: Any, table: str, triggers: list[str]) -> None:
    if connection.vendor == "postgresql":
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    for sql in triggers:
        cursor.execute(sql)
