"""Migrations there and back, and whether the guard of events stands meanwhile."""

from __future__ import annotations

from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor


def migrate(name: str | None = None) -> None:
    """To a migration of ours, or to the newest."""
    executor = MigrationExecutor(connection)
    if name is None:
        executor.migrate(executor.loader.graph.leaf_nodes("memoryhub"))
    else:
        executor.migrate([("memoryhub", name)])


def refused(sql: str) -> bool:
    """Whether the database itself keeps a statement from events."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
    except DatabaseError as failure:
        return "append-only" in str(failure)
    return False


def guarded() -> bool:
    return all(
        refused(sql)
        for sql in (
            "UPDATE memoryhub_event SET actor = 'agent:else' WHERE seq = 2",
            "UPDATE memoryhub_event SET body = '{}' WHERE seq = 2",
            "DELETE FROM memoryhub_event WHERE seq = 2",
        )
    )
