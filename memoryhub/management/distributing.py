"""Distribution of a hub's tables over the workers of a Citus cluster.

The tables of `PER_THREAD` are spread by thread; every other table stays on the
coordinator. See decision 99 and docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from django.db import connections, transaction

from memoryhub.errors import StartRefusedError
from memoryhub.management import triggers
from memoryhub.models import per_thread
from memoryhub.models.events import Event
from memoryhub.models.per_thread import list_tables

#: Citus places the shards of the other tables beside those of this table.
_FIRST: Final = Event._meta.db_table
#: It refuses the truncation of the rows that Citus leaves behind.
_GUARD: Final = f"CREATE TRIGGER {_FIRST}_truncate"
_DROP_GUARD: Final = f'DROP TRIGGER "{_FIRST}_truncate" ON "{_FIRST}"'
_TABLES: Final = """SELECT c.relname, greatest(c.reltuples, 0)::bigint,
      pg_total_relation_size(c.oid),
      ARRAY(SELECT conname::text FROM pg_constraint
            WHERE conrelid = c.oid AND contype = 'f' ORDER BY conname)
    FROM pg_class c
    WHERE c.relname = ANY(%s) AND c.relnamespace = current_schema()::regnamespace"""


class TableMove(NamedTuple):
    """A table that a cluster spreads, and what its distribution changes."""

    table: str
    #: Rows by PostgreSQL's estimate, and bytes with indexes. Of a distributed table
    #: both are of the empty table on the coordinator.
    rows: int
    bytes: int
    #: Names of foreign keys that are dropped.
    foreign_keys: tuple[str, ...]
    is_distributed: bool


def require_workers() -> tuple[str, int]:
    """Return Citus's version and the number of nodes that take shards.

    Raises StartRefusedError where there is no Citus, or no node takes shards.
    """
    if connections["default"].vendor != "postgresql":
        raise StartRefusedError(
            "citus_missing: only a hub on PostgreSQL can be distributed; set "
            "DATABASE_URL"
        )
    found = _run("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
    if not found:
        raise StartRefusedError(
            "citus_missing: the database of DATABASE_URL does not have the extension "
            "citus; docs/operations.md says how to make a coordinator"
        )
    ((nodes,),) = _run("SELECT count(*) FROM citus_get_active_worker_nodes()")
    if not nodes:
        raise StartRefusedError(
            "citus_workers: the coordinator knows no worker; name each by "
            "SELECT citus_add_node('host', 5432)"
        )
    return found[0][0], nodes


def list_moves() -> list[TableMove]:
    """Return the tables that a cluster spreads, in the order of their distribution."""
    distributed = per_thread.list_distributed()
    found = {name: values for name, *values in _run(_TABLES, [list_tables()])}
    return [
        TableMove(table, rows, size, tuple(keys), table in distributed)
        for table in list_tables()
        for rows, size, keys in [found[table]]
    ]


def iter_distributed() -> Iterator[TableMove]:
    """Distribute the tables that are not yet, and yield each when it is committed.

    Each table moves in one transaction, under a lock that keeps all others out. Copies
    every row. An interrupted distribution goes on with the next call.
    """
    for move in list_moves():
        if not move.is_distributed:
            with transaction.atomic(using="default"):
                _distribute(move)
            yield move


def _distribute(move: TableMove) -> None:
    for statement in (
        "SET LOCAL statement_timeout = 0",
        # Our triggers read the changed row only, so shards may have them.
        "SET LOCAL citus.enable_unsafe_triggers = on",
        # Foreign keys cannot point from a worker at the coordinator.
        *(
            f'ALTER TABLE "{move.table}" DROP CONSTRAINT "{name}"'
            for name in move.foreign_keys
        ),
    ):
        _run(statement)
    if move.table == _FIRST:
        _replace_triggers("CREATE FUNCTION memoryhub_event_guard")
        _run(_DROP_GUARD)
    beside = "none" if move.table == _FIRST else _FIRST
    _run(
        "SELECT create_distributed_table(%s, 'thread_id', colocate_with => %s)",
        [move.table, beside],
    )
    # Citus copies rows and leaves the originals, which no erasure would reach.
    _run("SELECT truncate_local_data_after_distributing_table(%s)", [move.table])
    if move.table == _FIRST:
        _replace_triggers(_GUARD)


def _replace_triggers(start: str) -> None:
    """Make what begins so of a cluster's triggers and their functions."""
    for text in triggers.iter_statements(postgres=True, distributed=True):
        if text.startswith(start):
            _run(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))


def _run(statement: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []
